-- When, by the clock of the server, the oldest start but so many was, of those that are kept under this name; NULL: there are
-- no more than that.
CREATE OR REPLACE FUNCTION {schema}.rate_oldest_{version}(name text, skipped bigint) RETURNS float8
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT kept.at - {schema}.skew() FROM (
    SELECT s.at, s.seq, sum(s.n) OVER (ORDER BY s.at, s.seq) AS place
    FROM {schema}.limits l JOIN {schema}.starts s ON s.limit_id = l.id
    WHERE l.name = rate_oldest_{version}.name AND l.grp = '' AND s.n > 0 ORDER BY s.at, s.seq LIMIT skipped + 1
  ) kept WHERE kept.place > skipped ORDER BY kept.at, kept.seq LIMIT 1
$$;
