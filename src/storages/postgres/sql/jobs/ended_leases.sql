-- Leases that end, as the limits want to know about them. ats, ns: as lock_leases answers; the jobs are active still.
CREATE OR REPLACE FUNCTION {schema}.ended_leases(outcomes json, ats tid[], ns integer[]) RETURNS {schema}.ended_lease[]
LANGUAGE sql STABLE SET enable_hashjoin = on AS $$
  SELECT array_agg((j.token, j.queue, j.type, j.grp, j.started_at, j.limits,
      CASE WHEN o.to IS NULL THEN 'well' WHEN o.to IN ('retry', 'dead') THEN 'failed' ELSE 'gone' END,
      o.kinds, o.hold, coalesce(o.unstarted, false),
      CASE WHEN o.held AND NOT coalesce(o.unstarted, false) THEN coalesce(o.settled, '{}') END)::{schema}.ended_lease ORDER BY o.n)
  FROM unnest(ats, ns) AS l (at, n)
  JOIN json_to_recordset(outcomes)
    AS o (n integer, "to" text, kinds text[], hold jsonb, unstarted boolean, held boolean, settled text[]) ON o.n = l.n
  JOIN {schema}.jobs j ON j.ctid = l.at
$$;
