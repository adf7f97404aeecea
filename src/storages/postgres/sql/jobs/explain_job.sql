-- Everything that decides when a job can start (jobs/explain.ts): one look, without any lock. NULL: there is no such job.
CREATE OR REPLACE FUNCTION {schema}.explain_job(job_id text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
  skew float8 := {schema}.skew();
  own {schema}.jobs;
  -- The same, with the due_at by which it is ordered: where it will be, if it backs off.
  place {schema}.jobs;
  standing jsonb := '{"ahead": {"higher": 0, "group": 0, "lane": 0, "turns": 0}, "before": {"lane": 0, "type": 0}, "lane": null}';
  ahead float8;
  -- So many may take of a limit before it.
  before float8;
  first jsonb;
  kept jsonb;
  brought jsonb;
BEGIN
  SELECT * INTO own FROM {schema}.jobs j WHERE j.id = job_id;
  IF own.id IS NULL THEN
    RETURN NULL;
  END IF;
  IF own.state IN ('waiting', 'scheduled') THEN
    place := own;
    place.due_at := coalesce(own.first_due_at, own.due_at);
    standing := {schema}.standing_of(place, now);
  END IF;
  ahead := (standing -> 'ahead' ->> 'lane')::float8;
  before := (standing -> 'before' ->> 'type')::float8;
  IF ahead > 0 THEN
    first := jsonb_build_object('weights', {schema}.head_weights(own, now));
  END IF;
  SELECT coalesce(jsonb_agg(jsonb_build_object('rule', r.rule)
      || {schema}.seen_standing(r.fields, own, standing -> 'lane', first -> 'weights', before, now)
      ORDER BY r.name), '[]')
    INTO kept FROM {schema}.rules r
    WHERE ((r.fields).queues IS NULL OR own.queue = ANY ((r.fields).queues))
      AND ((r.fields).types IS NULL OR own.type = ANY ((r.fields).types));
  SELECT coalesce(jsonb_agg(jsonb_build_object('claim', c.value, 'behind', 0, 'seen', {schema}.seen_limit(c.value ->> 'key', '',
      (c.value ->> 'windowMs')::float8, (c.value ->> 'max')::float8, 1, before, now)) ORDER BY c.ordinality), '[]')
    INTO brought FROM {schema}.claims q, jsonb_array_elements(q.limits) WITH ORDINALITY c WHERE q.queue = own.queue;
  IF own.state = 'scheduled' AND own.due_at <= now AND {schema}.has_passed(own.due_wall) THEN
    own := place;
  END IF;
  RETURN standing || jsonb_build_object('now', now, 'skew', skew, 'job', {schema}.job_json(own, skew), 'first', first,
    'workers', {schema}.live_workers(own.queue, now),
    'pauses', (SELECT coalesce(jsonb_agg(p.type), '[]') FROM {schema}.pauses p WHERE p.queue = own.queue),
    'limits', kept || brought);
END
$$;
