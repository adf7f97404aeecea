-- Locks the jobs whose leases are to be ended, in the order of their ids, as everybody does who waits for jobs. Each is looked up
-- by its id, and its lease in a hash table (heartbeat.sql).
--
-- outcomes: a list as jobs/outcomes.ts writes it, each with its number n. again: an earlier call may have done it already; what
-- it has ended is not stale then.
--
-- ats, ns, tos, results: the rows that are held, with the numbers of their outcomes, how they end (NULL: well), and what with.
-- stale: the numbers of the others; those of them that were not started spend no attempt all the
-- same, and woken says whom that wakes. took: one of them has taken something of a limit, or holds one now. grouped: one that has
-- a group comes back.
CREATE OR REPLACE FUNCTION {schema}.lock_leases(outcomes json, again boolean, OUT ats tid[], OUT ns integer[], OUT tos text[],
  OUT results text[], OUT stale integer[], OUT took boolean, OUT grouped boolean, OUT woken json)
LANGUAGE plpgsql VOLATILE SET enable_hashjoin = on AS $$
DECLARE
  ids text[];
  tokens bigint[];
BEGIN
  SELECT array_agg(o.id), array_agg(o.token) INTO ids, tokens
  FROM json_to_recordset(outcomes) AS o (id text, token bigint);
  WITH locked AS MATERIALIZED (
    SELECT j.ctid AS at, j.id, j.token, j.limits IS NOT NULL AS took, j.grp IS NOT NULL AS grouped FROM {schema}.jobs j
    WHERE j.id = ANY (ids) AND j.lease_until IS NOT NULL
      AND ((j.id, j.token) IN (SELECT o.id, o.token FROM unnest(ids, tokens) AS o (id, token))) IS TRUE
    ORDER BY j.id FOR UPDATE
  )
  SELECT array_agg(l.at), array_agg(o.n), array_agg(o.to), array_agg(o.result), bool_or(l.took OR o.hold IS NOT NULL),
    bool_or(l.grouped AND o.to IN ('retry', 'back'))
  INTO ats, ns, tos, results, took, grouped
  FROM locked l JOIN json_to_recordset(outcomes) AS o (n integer, id text, token bigint, "to" text, result text, hold json)
    ON o.token = l.token AND o.id = l.id;
  ats := coalesce(ats, '{}');
  stale := '{}';
  IF cardinality(ats) < cardinality(ids) THEN
    SELECT {schema}.unspend(array_agg(o.id), array_agg(o.token)) INTO woken
    FROM json_to_recordset(outcomes) AS o (id text, token bigint, unstarted boolean) WHERE o.unstarted;
    stale := ARRAY(SELECT o.n FROM json_to_recordset(outcomes) AS o (n integer, id text, token bigint)
      WHERE (o.n IN (SELECT h.n FROM unnest(ns) AS h (n))) IS NOT TRUE AND NOT (again AND NOT EXISTS (
        SELECT FROM {schema}.jobs j WHERE j.id = o.id AND (j.token <> o.token OR j.lease_until IS NOT NULL OR coalesce(j.claim, -1) < 0)))
      ORDER BY o.n);
  END IF;
END
$$;
