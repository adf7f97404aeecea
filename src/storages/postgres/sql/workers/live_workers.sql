-- The live workers of a queue, or of all (NULL), that which began first in front, as people see them: [{id, queue, info, since, seenAt}].
CREATE OR REPLACE FUNCTION {schema}.live_workers(of_queue text, now float8) RETURNS jsonb
LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(jsonb_agg(jsonb_build_object('id', w.id, 'queue', w.queue, 'info', w.info, 'since', w.since - {schema}.skew(),
      'seenAt', w.seen_at - {schema}.skew()) ORDER BY w.since, w.id), '[]')
    FROM {schema}.workers w WHERE w.until > now AND (of_queue IS NULL OR w.queue = of_queue)
$$;
