-- Writes down what a walk came to. Its jobs are held. Answers with those that have started, in order; whether there is news for
-- everybody; whether this claim itself may find more now (`others_may_look`); and whether a lane that seemed empty has jobs which
-- somebody else has his hands on (`taken`); whether events were written; and what is to be confirmed, as opened_claim says it.
--
-- queue_name, worker_name, claim_name, lease_ms: who claims. types: which may start. walked: what it came to. ttl, began: as
-- account_save. stamp: when they start; the walk was a moment before. number: of the grant that this one belongs to; NULL: it is one of
-- its own.
CREATE OR REPLACE FUNCTION {schema}.write_walk(
  queue_name text, worker_name text, claim_name bigint, lease_ms float8, types text[], walked {schema}.walked,
  ttl float8, began float8, stamp float8, number bigint,
  OUT jobs json, OUT everybody boolean, OUT others_may_look boolean, OUT taken boolean,
  OUT told boolean, OUT granted json
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now float8 := walked.at;
  wanted boolean := {schema}.events_wanted(walked.at);
  first bigint;
  skew float8;
  kept record;
  freed record;
BEGIN
  jobs := '[]';
  everybody := false;
  others_may_look := false;
  taken := false;
  told := wanted AND (walked.places <> '{}' OR walked.refused <> '{}');
  IF walked.places <> '{}' THEN
    first := nextval('{schema}.numbers');
    kept := {schema}.take_walked(walked, first, coalesce(number, first), ttl, began, stamp);
    IF kept.confirm_in IS NOT NULL THEN
      granted := json_build_array(coalesce(number, first), kept.confirm_in);
    END IF;
    SELECT greatest(m.skew, m.last - {schema}.wall()) INTO skew FROM {schema}.meta m;
    WITH started AS (
      UPDATE {schema}.jobs j SET state = 'active', attempt = j.attempt + 1, started_at = stamp,
        lease_until = stamp + lease_ms, worker = worker_name, claim = claim_name, limits = p.limits, token = first + p.place - 1
      FROM unnest(walked.places, kept.answer) WITH ORDINALITY AS p (job, limits, place)
      WHERE j.ctid = p.job
      RETURNING j.token, j.id, j.type, j.attempt, {schema}.job_json(j, skew) AS answer
    ), said AS (
      INSERT INTO {schema}.events (at, event)
      SELECT now, json_build_object('event', 'started', 'queue', queue_name, 'id', s.id, 'type', s.type,
        'attempt', s.attempt, 'worker', worker_name)::text
      FROM started s WHERE wanted ORDER BY s.token
    )
    SELECT json_agg(s.answer ORDER BY s.token) INTO jobs FROM started s;
  END IF;
  IF walked.lanes <> '{}' OR walked.emptied <> '{}' THEN
    WITH written AS (
      UPDATE {schema}.lanes l SET
        turn = CASE WHEN w.turn > 0 THEN first + w.turn - 1 ELSE l.turn END,
        served = coalesce(w.served, l.served),
        used_at = CASE WHEN w.gave THEN now ELSE l.used_at END,
        ready = CASE WHEN w.emptied THEN {schema}.head_of(l) IS NOT NULL ELSE l.ready END
      FROM (
        SELECT coalesce(g.id, e.id) AS id, g.turn, g.served, g.gave, e.id IS NOT NULL AS emptied
        FROM unnest(walked.lanes, walked.turns, walked.served, walked.gave) AS g (id, turn, served, gave)
          FULL JOIN (SELECT DISTINCT u.id FROM unnest(walked.emptied) AS u (id)) e ON e.id = g.id
      ) w WHERE l.id = w.id
      RETURNING w.emptied AND l.ready AS taken
    ) SELECT coalesce(bool_or(w.taken), false) INTO taken FROM written w;
  END IF;
  IF walked.refused <> '{}' THEN
    everybody := {schema}.end_refused(queue_name, walked, wanted);
  END IF;
  -- Whoever waited only for what has started now is worth a look, and hears of it.
  FOR freed IN
    SELECT DISTINCT r.name, CASE WHEN (r.rule ->> 'byGroup')::boolean THEN f.grp END AS grp
    FROM unnest(walked.freed_names, walked.freed_grps) AS f (name, grp) JOIN {schema}.rules r ON r.name = f.name
  LOOP
    WITH behind AS (
      UPDATE {schema}.lanes l SET blocked_until = NULL
      WHERE l.blocked_by = freed.name AND l.blocked_until IS NOT NULL AND l.heavy IS NULL
        AND (freed.grp IS NULL OR l.grp = freed.grp)
      RETURNING l.queue, l.type
    ) SELECT everybody OR count(*) > 0,
        others_may_look OR coalesce(bool_or(b.queue = queue_name AND b.type = ANY (types)), false)
      INTO everybody, others_may_look FROM behind b;
  END LOOP;
  IF walked.blocked <> '{}' THEN
    -- Whoever waited already keeps his place.
    UPDATE {schema}.lanes l SET blocked_until = CASE WHEN b.wait = 'Infinity' THEN 1e18 ELSE now + b.wait END,
      blocked_by = b.name, heavy = b.heavy,
      heavy_since = CASE WHEN l.heavy IS NOT DISTINCT FROM b.heavy AND l.blocked_by IS NOT DISTINCT FROM b.name
        THEN l.heavy_since ELSE now END
    FROM unnest(walked.blocked, walked.blocked_waits, walked.blocked_names, walked.blocked_heavy) AS b (id, wait, name, heavy)
    WHERE l.id = b.id;
  END IF;
END
$$;
