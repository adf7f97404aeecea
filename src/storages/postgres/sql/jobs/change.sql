-- What people do to jobs.
--
-- wanted: {action, queue, ids, states} or {action, queue, states, type, grp, ended_for, most}: jobs by their ids, or the oldest
-- that are such; states: only if they are in one of these, NULL: in any that the action applies to. Answer: {changed: [id],
-- missed: how many others had been chosen, and were claimed or changed by somebody else before they could be held, woken,
-- everybody, stopping: [[queue, id]], events}.
--
-- Jobs that have come due count as such, whether or not anybody has claimed since. They stay as they are: who held them, in the
-- order in which they came due, while he waits for others would be waited for crosswise.
--
-- A job may be in the hands of a transaction of somebody else's, for as long as he likes: it is waited for only for a moment, for
-- others wait behind the rules lock meanwhile. Then the client comes back (55P03).
CREATE OR REPLACE FUNCTION {schema}.change(wanted json) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  q record;
  alone boolean := {schema}.many_rules();
  now float8;
  applies text[];
  chosen text[];
  rows record;
  weighing text[];
  woken json;
  stopping json;
  everybody boolean := false;
  told boolean;
BEGIN
  SELECT * INTO q FROM json_to_record(wanted) AS r (action text, queue text, ids text[], states text[], type text, grp text,
    ended_for float8, most integer);
  applies := CASE q.action WHEN 'cancel' THEN '{waiting,scheduled,awaiting,active}' WHEN 'retry' THEN '{completed,dead,cancelled}'
    WHEN 'promote' THEN '{scheduled}' ELSE '{waiting,scheduled,awaiting,completed,dead,cancelled}' END;
  IF q.states IS NOT NULL THEN
    applies := ARRAY(SELECT s FROM unnest(applies) s WHERE s = ANY (q.states));
  END IF;
  PERFORM {schema}.begin_step(alone);
  now := {schema}.present();
  chosen := q.ids;
  IF chosen IS NULL THEN
    chosen := ARRAY(SELECT p.id FROM (
        SELECT i.* FROM unnest(applies) AS s (state) CROSS JOIN LATERAL {schema}.ids_in_state(q.queue, s.state, q.type,
          q.grp, NULL, NULL, now - q.ended_for, q.action = 'cancel', false, NULL, q.most) i WHERE s.state <> 'scheduled'
        UNION ALL
        SELECT i.* FROM {schema}.ids_scheduled(q.queue, q.type, q.grp, 'waiting' = ANY (applies), 'scheduled' = ANY (applies), now,
          q.most) i WHERE q.ended_for IS NULL
      ) p ORDER BY p.seq LIMIT q.most);
  END IF;
  PERFORM set_config('lock_timeout', CASE WHEN alone THEN '20' ELSE '200' END, true);
  -- By ids an active job is asked again, and its worker hears of it again; but nothing is changed then.
  SELECT coalesce(array_agg(l.id), '{}') AS ids, coalesce(array_agg(l.seq), '{}') AS seqs,
    json_agg(json_build_array(q.queue, l.id)) FILTER (WHERE l.state = 'active') AS stopping,
    coalesce(array_agg(l.id) FILTER (WHERE NOT (l.state = 'active' AND l.cancel_requested)), '{}') AS changed,
    coalesce(array_agg((q.queue, l.type, l.priority, l.grp)::{schema}.gone_job) FILTER (WHERE l.state = 'waiting'), '{}') AS waited
  INTO rows FROM (
    SELECT j.id, j.seq, j.state, j.type, j.priority, j.grp, j.cancel_requested FROM {schema}.jobs j
    WHERE j.id = ANY (chosen) AND j.queue COLLATE "POSIX" = q.queue
      AND CASE WHEN j.state = 'scheduled' AND j.due_at <= now AND {schema}.has_passed(j.due_wall) THEN 'waiting' ELSE j.state END = ANY (applies)
    ORDER BY j.id FOR UPDATE
  ) l;
  PERFORM set_config('lock_timeout', '2000', true);
  weighing := CASE WHEN cardinality(rows.waited) > 0 THEN {schema}.weighing() ELSE '{}' END;
  IF NOT alone AND cardinality(weighing) > 0 THEN
    PERFORM {schema}.lock_limits(weighing);
  END IF;
  now := {schema}.moment();
  told := q.action = 'cancel' AND ({schema}.events_wanted(now) OR {schema}.ends_wanted(now));
  CASE q.action
    WHEN 'cancel' THEN
      stopping := rows.stopping;
      told := {schema}.cancel_jobs(rows.changed, now, told);
    WHEN 'remove' THEN
      PERFORM {schema}.delete_jobs(rows.seqs, rows.ids);
    ELSE
      woken := {schema}.bring_back(rows.ids, now);
  END CASE;
  IF cardinality(weighing) > 0 THEN
    everybody := {schema}.left_lane(rows.waited);
  END IF;
  RETURN json_build_object('changed', ARRAY(SELECT i.id FROM (
      SELECT u.id, min(u.no) AS no FROM unnest(chosen) WITH ORDINALITY AS u (id, no) GROUP BY u.id) i
      WHERE i.id = ANY (rows.changed) ORDER BY i.no),
    'missed', cardinality(chosen) - cardinality(rows.changed), 'woken', woken, 'everybody', everybody, 'stopping', stopping,
    'events', told);
END
$$;
