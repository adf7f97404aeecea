-- The first of these jobs, with so much data at most, but one in any case. How long data is stands in its row: nothing that is kept
-- apart from it, or compressed, is read for that.
CREATE OR REPLACE FUNCTION {schema}.first_bytes(picked tid[], bytes float8) RETURNS tid[]
LANGUAGE sql STABLE AS $$
  SELECT picked[1:greatest(1, (SELECT count(*) FROM (
    SELECT sum(octet_length(j.data)) OVER (ORDER BY p.no) AS total
    FROM unnest(picked) WITH ORDINALITY AS p (at, no) JOIN {schema}.jobs j ON j.ctid = p.at) s WHERE s.total <= bytes)::integer)]
$$;
