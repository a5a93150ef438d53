-- SPDX-License-Identifier: Apache-2.0
create table t(a integer primary key, b integer, c text);
with recursive n(x) as (select 1 union all select x + 1 from n where x < 200000)
	insert into t select x, x * 7919 % 10007, printf('%x-%s', x * 31, hex(x % 97)) from n;
create index i on t(b);
create virtual table f using fts5(words);
insert into f select c || ' ' || replace(c, '-', ' ') from t where a < 40000;
analyze;
select b, count(*), sum(a), group_concat(substr(c, 1, 1), '') from t group by b order by 3 desc limit 5;
select count(*) from f where words match 'a* OR 3f';
select count(*), sum(length(upper(c) || lower(c))), max(c like '%f%3%'), min(c glob '*-3?*') from t;
select sum(x.a), count(distinct y.c) from t x join t y on x.b = y.b and y.a < 3000;
update t set c = json_object('a', a, 'c', c) where b % 3 = 0;
select sum(json_extract(c, '$.a')), count(*) from t where b % 3 = 0;
select a, row_number() over (partition by b order by c), lag(a) over (order by a) from t order by 2 desc, 1 limit 3;
delete from t where b % 5 = 1;
vacuum;
pragma integrity_check;
