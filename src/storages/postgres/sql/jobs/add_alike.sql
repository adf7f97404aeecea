-- Adds jobs that differ in nothing but their ids and data, in their order, as almost all do that come at once.
--
-- columns: what is the same for all (jobs/add.ts). notify: as add. In somebody else's transaction jobs that are there already are left
-- out, for nothing may fail there; in ours such a one fails with unique_violation, which takes a sixth less time where there is none.
-- teller: as add_one.
--
-- Answers as add; told: as add_one. NULL: nothing was added, and more care is needed: they may have to be refused.
CREATE OR REPLACE FUNCTION {schema}.add_alike(ids text[], data text[], columns json, notify boolean, teller text) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  q record;
  sign record;
  now float8;
  due float8;
  made text[];
  others json;
  -- NULL: there is nothing to tell.
  news boolean;
  told boolean;
BEGIN
  SELECT * INTO q FROM json_to_record(columns) AS r (queue text, type text, due float8, due_in float8, priority float8, grp text,
    weights jsonb, max_attempts bigint, backoff text, timeout float8, deadline float8, deadline_in float8, keep_for float8);
  SELECT m.last, greatest(m.last, {schema}.wall() + m.skew) AS now, greatest(m.skew, m.last - {schema}.wall()) AS skew,
    EXISTS (SELECT FROM {schema}.rules r WHERE r.rule ->> 'weight' IS NOT NULL) AS weighed,
    EXISTS (SELECT FROM {schema}.listeners l WHERE l.events AND l.until > m.last) AS heard,
    EXISTS (SELECT FROM {schema}.listeners l WHERE l.origin <> teller AND l.until > m.last) AS listened
  INTO sign FROM {schema}.meta m;
  IF sign.weighed THEN
    RETURN NULL;
  END IF;
  now := sign.now;
  due := greatest(now, coalesce(q.due + sign.skew, now + q.due_in));
  news := CASE WHEN due <= now THEN {schema}.lane_news(q.queue, q.type, q.priority, q.grp, now)
    ELSE {schema}.is_first_due(q.queue, q.type, due) END;
  IF notify THEN
    WITH added AS (
      INSERT INTO {schema}.jobs AS j (id, queue, type, state, priority, grp, data, weights, max_attempts, backoff, timeout,
        deadline, deadline_wall, keep_for, created_at, due_at, due_wall)
      SELECT n.id, q.queue, q.type, CASE WHEN due <= now THEN 'waiting' ELSE 'scheduled' END, q.priority, q.grp, n.data, q.weights,
        q.max_attempts, q.backoff, q.timeout, coalesce(q.deadline + sign.skew, now + q.deadline_in), q.deadline,
        q.keep_for, now, due, CASE WHEN due > now THEN q.due END
      FROM (SELECT unnest(ids) AS id, unnest(add_alike.data) AS data) AS n
      ON CONFLICT (id) DO NOTHING RETURNING j.id
    )
    SELECT coalesce(array_agg(a.id), '{}') INTO made FROM added a;
    IF cardinality(made) < cardinality(ids) THEN
      others := {schema}.not_added((SELECT json_agg(json_build_object('id', i.id) ORDER BY i.no)
        FROM unnest(ids) WITH ORDINALITY AS i (id, no)), made);
    END IF;
    IF cardinality(made) = 0 THEN
      RETURN json_build_object('others', others);
    END IF;
  ELSE
    INSERT INTO {schema}.jobs (id, queue, type, state, priority, grp, data, weights, max_attempts, backoff, timeout, deadline,
      deadline_wall, keep_for, created_at, due_at, due_wall)
    SELECT n.id, q.queue, q.type, CASE WHEN due <= now THEN 'waiting' ELSE 'scheduled' END, q.priority, q.grp, n.data, q.weights,
      q.max_attempts, q.backoff, q.timeout, coalesce(q.deadline + sign.skew, now + q.deadline_in), q.deadline,
        q.keep_for, now, due, CASE WHEN due > now THEN q.due END
    FROM (SELECT unnest(ids) AS id, unnest(add_alike.data) AS data) AS n;
    made := ids;
  END IF;
  IF due <= now AND q.grp IS NOT NULL THEN
    INSERT INTO {schema}.arrivals (queue, type, priority, grp, due_at, job)
    SELECT q.queue, q.type, q.priority, q.grp, due, j.seq FROM {schema}.jobs j WHERE j.id = made[1];
  END IF;
  IF sign.heard THEN
    INSERT INTO {schema}.events (at, event)
    SELECT now, json_build_object('event', 'added', 'queue', q.queue, 'id', m.id, 'type', q.type) FROM unnest(made) AS m (id);
  END IF;
  IF notify THEN
    -- Whatever keeps them back now may be over when the transaction is.
    PERFORM {schema}.notify_queues(ARRAY[q.queue]);
    RETURN json_build_object('others', others);
  END IF;
  IF now >= sign.last + 100 THEN
    now := {schema}.moment();
  END IF;
  told := {schema}.tell_added(teller, sign.listened, q.queue, news, sign.heard);
  RETURN {schema}.added_answer(q.queue, news, sign.heard, told);
END
$$;
