-- Adds jobs: all of them or none. Nothing but INSERTs, as a rule, so that it can be part of a transaction of somebody else's, at
-- any isolation level, and holds up nobody until that one ends.
--
-- jobs: a list as jobs/add.ts writes it, or, where they are alike, {ids, data, and the columns that are the same for all}.
-- notify: the transaction is somebody else's, and whoever waits for jobs is told by NOTIFY as soon as it is committed; else it is
-- ours, and the caller tells. again: an earlier call may have been done, and its answer lost: what it has added counts as
-- added, and is told as news.
--
-- Answer: {others: [[number of the job from 0, the id that there is instead]], woken, everybody, events}, or, where nothing was
-- added, {refused: {why: "key", key, id, because} or {why: "weight", rule, weight, said, most}}.
CREATE OR REPLACE FUNCTION {schema}.add(jobs json, notify boolean DEFAULT false, again boolean DEFAULT false)
RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
DECLARE
  now float8;
  keyed boolean;
  weighed boolean;
  alike record;
  answer text;
  there boolean := again;
  rows record;
  everybody boolean := false;
  wrong text;
BEGIN
  IF json_typeof(jobs) = 'object' THEN
    SELECT * INTO alike FROM json_to_record(jobs) AS r (ids text[], data text[]);
    IF notify THEN
      answer := {schema}.add_alike(alike.ids, alike.data, jobs, true, NULL);
      IF answer IS NOT NULL THEN
        RETURN answer;
      END IF;
    END IF;
    jobs := {schema}.listed(alike.ids, alike.data, (jobs::jsonb - 'ids' - 'data')::json);
  END IF;
  -- Names are written as they are; inside of text every quote has a backslash before it.
  keyed := strpos(jobs::text, '"key":') > 0 OR strpos(jobs::text, '"key" :') > 0;
  weighed := EXISTS (SELECT FROM {schema}.rules r WHERE r.rule ->> 'weight' IS NOT NULL);
  now := {schema}.present();
  IF NOT keyed AND NOT weighed THEN
    IF NOT notify AND NOT again THEN
      BEGIN
        SELECT a.*, NULL::json AS others INTO rows FROM {schema}.add_rows(jobs, now, true) a;
      EXCEPTION WHEN unique_violation THEN
        there := true;
      END;
    END IF;
    -- In somebody else's transaction nothing is tried first: what can be undone costs more, the more of it there is in one.
    IF notify OR there THEN
      SELECT a.*, {schema}.not_added(jobs, a.made) AS others INTO rows FROM {schema}.add_rows(jobs, now, false) a;
    END IF;
  ELSE
    BEGIN
      SELECT * INTO rows FROM {schema}.add_with_care(jobs, now);
    EXCEPTION WHEN SQLSTATE 'SL002' THEN
      GET STACKED DIAGNOSTICS wrong = PG_EXCEPTION_DETAIL;
      RETURN json_build_object('refused', wrong::json);
    END;
    IF weighed AND cardinality(rows.gone) > 0 THEN
      everybody := true;
      IF NOT notify THEN
        PERFORM {schema}.begin_step();
        PERFORM {schema}.lock_limits({schema}.weighing());
        everybody := {schema}.left_lane(rows.gone);
      END IF;
    END IF;
  END IF;
  IF again THEN
    rows.others := {schema}.others_than(jobs, rows.others);
    rows.woken := (SELECT json_agg(DISTINCT jsonb_build_array(n.queue, true)) FROM json_to_recordset(jobs) AS n (queue text));
  END IF;
  IF NOT notify THEN
    -- The time is remembered, last: in somebody else's transaction that would keep others waiting until it ends.
    PERFORM {schema}.moment();
  END IF;
  IF notify AND cardinality(rows.made) > 0 THEN
    -- Whatever keeps them back now may be over when the transaction is.
    PERFORM {schema}.notify_queues((SELECT array_agg(DISTINCT n.queue) FROM json_to_recordset(jobs) AS n (queue text)));
  END IF;
  RETURN json_build_object('others', rows.others, 'woken', rows.woken, 'everybody', everybody, 'events', rows.told);
END
$$;
