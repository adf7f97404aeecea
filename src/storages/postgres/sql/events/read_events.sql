-- Events from a number on, in order, so many at most, with so many bytes, but one in any case; and those that were found in gaps
-- before it. gaps: [{first, last}].
CREATE OR REPLACE FUNCTION {schema}.read_events(newest bigint, gaps json, most int, bytes float8) RETURNS json
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(json_agg(json_build_object('seq', found.seq, 'event', found.event) ORDER BY found.seq), '[]') FROM (
    SELECT e.seq, e.event FROM (
      SELECT n.seq, n.event, row_number() OVER (ORDER BY n.seq) AS no, sum(octet_length(n.event)) OVER (ORDER BY n.seq) AS total
      FROM (SELECT e.seq, e.event FROM {schema}.events e WHERE e.seq > newest ORDER BY e.seq LIMIT most) n
    ) e WHERE e.no = 1 OR e.total <= bytes
    UNION ALL
    (SELECT e.seq, e.event FROM json_to_recordset(gaps) AS gap (first bigint, last bigint)
      JOIN {schema}.events e ON e.seq BETWEEN gap.first AND gap.last)
  ) AS found
$$;
