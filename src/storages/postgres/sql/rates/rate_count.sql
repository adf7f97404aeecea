-- How many starts under a name lie after an instant by the clock of the server. What is asked for is kept from now on, for
-- two months at the most.
CREATE OR REPLACE FUNCTION {schema}.rate_count_{version}(limit_name text, after float8) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
  begin_at float8 := after + {schema}.skew();
  kept record;
  age float8 := least(4294967296, now - begin_at);
BEGIN
  SELECT l.longest, (SELECT coalesce(sum(s.n), 0) FROM {schema}.starts s WHERE s.limit_id = l.id AND s.at > begin_at) AS count
    INTO kept FROM {schema}.limits l WHERE l.name = limit_name AND l.grp = '';
  IF kept.longest < age THEN
    PERFORM {schema}.begin_step(false);
    PERFORM {schema}.lock_limits(ARRAY[limit_name]);
    now := {schema}.moment();
    PERFORM {schema}.open_limit(limit_name,
      least(4294967296, power(2, ceil(log(2, greatest(3600000, age)::numeric))))::float8, '', now);
  END IF;
  RETURN coalesce(kept.count, 0);
END
$$;
