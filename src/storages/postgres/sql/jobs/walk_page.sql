-- The next ready lanes of each type in the order of their turns, so many of each from a place on, with all lanes that have their
-- turn with them: of one priority and group, of the types that are asked for, empty, blocked or paused as they may be.
--
-- queue_name: of which queue. asked: the types that have turns together; NULL: all. types, counts, places: what to read.
-- known: lanes that were read before. Answers lanes in the order of units, and which of them were asked for (`line`: of which
-- of the types, `rank`: its place there). `unit`: those of one priority and group; `family`: those of one group.
CREATE OR REPLACE FUNCTION {schema}.walk_page(
  queue_name text, asked text[], types text[], counts integer[], places integer[], known bigint[]
) RETURNS TABLE (
  id bigint, type text, priority float8, grp text, turn bigint, served integer, ready boolean, blocked boolean, heavy bigint,
  heavy_by text, heavy_since float8, unit bigint, family bigint, line integer, rank bigint
)
LANGUAGE sql STABLE AS $$
  WITH front AS MATERIALIZED (
    SELECT t.line::integer, l.id, l.priority, l.grp,
      row_number() OVER (PARTITION BY t.line ORDER BY l.priority DESC, l.turn, l.id) AS rank
    FROM unnest(types, counts, places) WITH ORDINALITY AS t (type, count, place, line) CROSS JOIN LATERAL (
      SELECT a.id, a.priority, a.grp, a.turn FROM {schema}.lanes a
      WHERE a.queue = queue_name AND a.type = t.type AND a.ready AND a.blocked_until IS NULL
      ORDER BY a.priority DESC, a.turn, a.id LIMIT t.count OFFSET t.place
    ) l
  )
  SELECT l.id, l.type, l.priority, l.grp, l.turn, l.served, l.ready, l.blocked_until IS NOT NULL, l.heavy, l.blocked_by,
    l.heavy_since, dense_rank() OVER (ORDER BY l.priority, l.grp), dense_rank() OVER (ORDER BY l.grp),
    u.lines[array_position(u.ids, l.id)], u.ranks[array_position(u.ids, l.id)]
  FROM (
      SELECT n.priority, n.grp, array_agg(n.id) AS ids, array_agg(n.line) AS lines, array_agg(n.rank) AS ranks
      FROM front n WHERE n.id <> ALL (known) GROUP BY n.priority, n.grp
    ) u
    CROSS JOIN LATERAL (
      SELECT a.* FROM {schema}.lanes a
      WHERE a.queue = queue_name AND a.priority = u.priority AND a.grp = u.grp AND (asked IS NULL OR a.type = ANY (asked))
      OFFSET 0
    ) l
  UNION ALL
  SELECT f.id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    f.line, f.rank FROM front f WHERE f.id = ANY (known)
  ORDER BY 12, 1
$$;
