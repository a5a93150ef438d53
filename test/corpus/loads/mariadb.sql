-- SPDX-License-Identifier: Apache-2.0
create database if not exists t;
use t;
drop table if exists n;
create table n(a int primary key, b int, c varchar(40), key (b)) engine = innodb;
insert into n select seq, seq * 7919 % 10007, md5(seq + @round) from seq_1_to_60000;
analyze table n;
select b, count(*), sum(a), max(c) from n group by b order by 3 desc, 1 limit 3;
select count(*), sum(length(regexp_replace(c, '([a-f]+)([0-9])', '\\2\\1'))) from n where c rlike '[a-f]{3}[0-9]+e';
select count(*), sum(x.a) from n x join n y on x.b = y.b and y.a % 13 = 0;
select sum(r) from (select row_number() over (partition by b order by c desc) r from n) w;
select md5(group_concat(c order by c separator '')) from (select c from n order by c desc limit 5000) s;
select sum(json_value(json_object('a', a, 'c', json_array(c)), '$.a')) from n where b < 2000;
with recursive m(x, y) as (select 1, 1 union all select x + 1, y * x % 1000003 from m where x < 900)
	select count(*), sum(y) from m;
update n set c = reverse(c) where b % 3 = 0;
select md5(group_concat(c order by a separator '')) from n where b < 300;
select benchmark(300000, sha2(concat('x', @round), 256));
select benchmark(300000, convert(upper('Straße') using utf8mb4) like '%SS%');
create table if not exists f(w text, fulltext (w)) engine = myisam;
truncate f;
insert into f select concat(c, ' ', left(c, 3), ' ', right(c, 4)) from n limit 20000;
select count(*) from f where match(w) against ('a1*' in boolean mode);
optimize table n;
delete from n where b % 5 = 1;
check table n;
