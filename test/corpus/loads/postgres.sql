-- SPDX-License-Identifier: Apache-2.0
-- Queries of many kinds, as machine code where "jit" is on.
set jit = :jit;
set jit_above_cost = 0;
set jit_inline_above_cost = 0;
set jit_optimize_above_cost = 0;
create temp table t as select g as a, g * 7919 % 10007 as b, md5((g + :round)::text) as c, g / 7.0 as d
	from generate_series(1, 150000) g;
create index on t(b);
create index on t using gin (string_to_array(substr(c, 1, 4), '7'));
analyze t;
select b, count(*), sum(a), round(avg(d), 3), max(c) from t group by b order by 3 desc limit 3;
select count(*), sum(length(regexp_replace(c, '([a-f]+)(\d)', '\2\1', 'g'))) from t where c ~ '[a-f]{3}\d+e';
select count(*), sum(x.a) from t x join t y on x.b = y.b and y.a % 13 = 0;
select sum(r) from (select row_number() over (partition by b order by c desc) r from t) w;
select md5(string_agg(c, '' order by c)) from (select c from t order by c desc limit 20000) s;
select sum((jsonb_build_object('a', a, 'c', jsonb_build_array(c, d)) ->> 'a')::int) from t where b < 2000;
with recursive n(x, y) as (select 1, 1::numeric union all select x + 1, y * x % 1000003 from n where x < 30000)
	select count(*), sum(y) from n;
do $$
declare
	s bigint := 0;
	r record;
begin
	for r in select a, c from t limit 30000 loop
		begin
			s := (s * 31 + length(r.c) + r.a) % 1000003;
			if s % 97 = 0 then
				raise exception 'no %', s;
			end if;
		exception when others then
			s := s + length(sqlerrm);
		end;
	end loop;
	raise notice '%', s;
end
$$;
update t set c = reverse(c) where b % 3 = 0;
select md5(string_agg(c, '' order by a)) from t where b < 300;
