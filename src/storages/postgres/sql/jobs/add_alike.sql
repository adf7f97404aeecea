-- Adds jobs that differ in nothing but their ids and data, in their order, as almost all do that come at once; one alone among them.
--
-- jobs: {ids, data, and the columns that are the same for all} (jobs/add.ts). notify: as add. Answers as add; NULL: nothing was added,
-- and more care is needed: they may have to be refused, or one is there already.
CREATE OR REPLACE FUNCTION {schema}.add_alike(jobs json, notify boolean) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- So many are looked up one by one. More than that are rather tried, and undone if one was there, which costs something once.
  few CONSTANT integer := 20;
  q record;
  sign record;
  now float8;
  due float8;
  made text[];
  others json;
  -- NULL: there is nothing to tell.
  news boolean;
BEGIN
  SELECT * INTO q FROM json_to_record(jobs) AS r (ids text[], data text[], queue text, type text, due float8, due_in float8,
    priority float8, grp text, weights jsonb, max_attempts bigint, backoff text, timeout float8, deadline float8,
    deadline_in float8, keep_for float8);
  SELECT m.last, greatest(m.last, {schema}.wall() + m.skew) AS now,
    EXISTS (SELECT FROM {schema}.rules r WHERE r.rule ->> 'weight' IS NOT NULL) AS weighed,
    EXISTS (SELECT FROM {schema}.listeners l WHERE l.events AND l.until > m.last) AS heard
  INTO sign FROM {schema}.meta m;
  IF sign.weighed THEN
    RETURN NULL;
  END IF;
  now := sign.now;
  due := greatest(now, coalesce(q.due, now + q.due_in));
  news := CASE WHEN due <= now THEN {schema}.lane_news(q.queue, q.type, q.priority, q.grp, now)
    ELSE {schema}.is_first_due(q.queue, q.type, due) END;
  IF notify OR cardinality(q.ids) <= few THEN
    WITH added AS (
      INSERT INTO {schema}.jobs AS j (id, queue, type, state, priority, grp, data, weights, max_attempts, backoff, timeout,
        deadline, keep_for, created_at, due_at)
      SELECT n.id, q.queue, q.type, CASE WHEN due <= now THEN 'waiting' ELSE 'scheduled' END, q.priority, q.grp, n.data, q.weights,
        q.max_attempts, q.backoff, q.timeout, coalesce(q.deadline, now + q.deadline_in), q.keep_for, now, due
      FROM unnest(q.ids, q.data) AS n (id, data)
      ON CONFLICT (id) DO NOTHING RETURNING j.id
    )
    SELECT array_agg(a.id) INTO made FROM added a;
    IF cardinality(made) = cardinality(q.ids) IS NOT TRUE THEN
      made := coalesce(made, '{}');
      others := {schema}.not_added({schema}.listed(jobs), made);
    END IF;
  ELSE
    BEGIN
      INSERT INTO {schema}.jobs AS j (id, queue, type, state, priority, grp, data, weights, max_attempts, backoff, timeout,
        deadline, keep_for, created_at, due_at)
      SELECT n.id, q.queue, q.type, CASE WHEN due <= now THEN 'waiting' ELSE 'scheduled' END, q.priority, q.grp, n.data, q.weights,
        q.max_attempts, q.backoff, q.timeout, coalesce(q.deadline, now + q.deadline_in), q.keep_for, now, due
      FROM unnest(q.ids, q.data) AS n (id, data);
      made := q.ids;
    EXCEPTION WHEN unique_violation THEN
      RETURN NULL;
    END;
  END IF;
  IF cardinality(made) > 0 AND due <= now AND q.grp IS NOT NULL THEN
    INSERT INTO {schema}.arrivals (queue, type, priority, grp, due_at, job)
    SELECT q.queue, q.type, q.priority, q.grp, due, j.seq FROM {schema}.jobs j WHERE j.id = made[1];
  END IF;
  IF cardinality(made) = 0 THEN
    news := NULL;
  ELSIF sign.heard THEN
    INSERT INTO {schema}.events (at, event)
    SELECT now, json_build_object('event', 'added', 'queue', q.queue, 'id', m.id, 'type', q.type) FROM unnest(made) AS m (id);
  END IF;
  IF notify AND cardinality(made) > 0 THEN
    -- Whatever keeps them back now may be over when the transaction is.
    PERFORM {schema}.notify_queues(ARRAY[q.queue]);
  ELSIF NOT notify AND now >= sign.last + 100 THEN
    now := {schema}.moment();
  END IF;
  RETURN json_build_object('others', others,
    'woken', CASE WHEN news IS NOT NULL THEN json_build_array(json_build_array(q.queue, news)) END,
    'events', sign.heard AND cardinality(made) > 0);
END
$$;
