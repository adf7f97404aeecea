-- How many jobs start before one that waits, or will, if nothing keeps them back (Standing in storage/limit-storage.ts): as if
-- all that have come due waited, and all that wait had a lane, though a claim opens it only when it has to. One that does not exist
-- yet would be where its unit is, behind those that do.
--
-- own: the job. at: now. Answers with `ahead`, with `before` (limits/behind.ts), and with its lane, if there is one: its id, the job that is too heavy for a
-- limit (`heavy`), for which (`by`), and since when.
CREATE OR REPLACE FUNCTION {schema}.standing_of(own {schema}.jobs, at float8) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  WITH due AS MATERIALIZED (
    SELECT * FROM {schema}.waiting_due(own.queue, own.priority, at)
  ), open AS MATERIALIZED (
    SELECT * FROM {schema}.waiting_open(own)
  ), places AS (
    SELECT g.type, g.grp, g.waiting, g.before, g.first FROM {schema}.waiting_grouped(own) g
    UNION ALL
    SELECT o.type, '', o.waiting, o.before, o.first FROM open o
    UNION ALL
    SELECT d.type, d.grp, count(*), count(*) FILTER (WHERE (d.due_at, d.seq) < (own.due_at, own.seq)), min(d.seq)
    FROM due d WHERE d.priority = own.priority GROUP BY d.type, d.grp
  ), present AS (
    SELECT p.type, p.grp, p.grp = coalesce(':' || own.grp, '') AS is_own, p.waiting, p.before,
      coalesce(l.turn, (SELECT max(u.turn) FROM {schema}.lanes u WHERE u.queue = own.queue AND u.priority = own.priority
        AND u.grp = p.grp), 0)::float8 AS turn,
      coalesce(l.id::float8, 'Infinity') AS id, coalesce(p.first, 0) AS first,
      l.blocked_until IS NULL OR l.blocked_until <= at AS free, l.heavy, l.blocked_by, l.heavy_since
    FROM (SELECT type, grp, sum(waiting) AS waiting, sum(before) AS before, min(first) AS first FROM places
      GROUP BY type, grp) p
    LEFT JOIN LATERAL (SELECT k.* FROM {schema}.lanes k WHERE k.queue = own.queue AND k.priority = own.priority
      AND k.grp = p.grp AND k.type = p.type LIMIT 1) l ON true
    WHERE p.waiting > 0
  ), speaker AS (
    -- The lane that was served the longest ago speaks for its group. Where there is none, all that never were come first.
    SELECT turn, id, first FROM (
      SELECT turn, id, first FROM present WHERE is_own
      UNION ALL SELECT 0, 'Infinity', 9223372036854775807 WHERE NOT EXISTS (SELECT FROM present WHERE is_own)
    ) s ORDER BY turn, id, first LIMIT 1
  ), mine AS (
    SELECT coalesce(sum(before), 0) AS unit, coalesce(sum(before) FILTER (WHERE type = own.type), 0) AS lane
    FROM present WHERE is_own
  ), others AS (
    -- Every other group has its turn as often as the job's own does before it; once more, if it is the other's turn first.
    SELECT least(sum(p.waiting),
      (SELECT unit FROM mine) + CASE WHEN bool_or((p.turn, p.id, p.first) < (s.turn, s.id, s.first)) THEN 1 ELSE 0 END) AS turns
    FROM present p, speaker s
    WHERE NOT p.is_own AND p.free
      AND NOT EXISTS (SELECT FROM {schema}.pauses u WHERE u.queue = own.queue AND u.type = ':' || p.type)
    GROUP BY p.grp
  ), alike AS (
    -- The same of its own type alone, which whoever asks for it asks for: of groups where nothing else waits.
    SELECT least(sum(p.waiting),
      (SELECT lane FROM mine) + CASE WHEN bool_or((p.turn, p.id, p.first) < (s.turn, s.id, s.first)) THEN 1 ELSE 0 END) AS turns
    FROM present p, speaker s
    WHERE NOT p.is_own AND p.free
    GROUP BY p.grp HAVING bool_and(p.type = own.type)
  ), above AS (
    SELECT (SELECT count(*) FROM (SELECT FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = own.type
        AND j.state = 'waiting' AND j.grp IS NOT NULL AND j.priority > own.priority LIMIT 10000) w)
      + coalesce((SELECT sum(o.higher) FROM open o WHERE o.type = own.type), 0)
      + (SELECT count(*) FROM due d WHERE d.priority > own.priority AND d.type = own.type) AS n
  ), higher AS (
    SELECT coalesce(sum(n), 0) AS n FROM (
      SELECT (SELECT count(*) FROM (SELECT FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = t.type
        AND j.state = 'waiting' AND j.grp IS NOT NULL AND j.priority > own.priority LIMIT 10000) w) AS n
      FROM unnest({schema}.waiting_types(own.queue)) AS t (type)
      UNION ALL SELECT o.higher FROM open o
      UNION ALL SELECT count(*) FROM due d WHERE d.priority > own.priority
    ) h
  )
  SELECT jsonb_build_object(
    'before', (SELECT jsonb_build_object('lane', least(10000, m.lane), 'type', least(10000,
      m.lane + a.n + (SELECT coalesce(sum(turns), 0) FROM alike))) FROM mine m, above a),
    'ahead', (SELECT jsonb_build_object('higher', least(10000, h.n), 'group', least(10000, m.unit), 'lane', least(10000, m.lane),
      'turns', least(10000, (SELECT coalesce(sum(turns), 0) FROM others))) FROM higher h, mine m),
    'lane', (SELECT jsonb_build_object('id', p.id, 'heavy', p.heavy, 'by', p.blocked_by, 'since', p.heavy_since)
      FROM present p WHERE p.is_own AND p.type = own.type AND p.id < 'Infinity'))
$$;
