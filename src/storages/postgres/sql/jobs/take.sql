-- A claim that comes with a plan (planner/plan-claim.ts), under limits or among groups: what has arrived is folded into lanes, what the
-- plan proposes is granted as far as it fits, and the next snapshot is answered. Claims of one queue meet only at the limits
-- that they share: the locks of all names in `rules` are held; what is to be settled is settled, and what has come due waits.
--
-- After these locks nothing is waited for, except by a claim without a plan for another that enters the same arrivals: jobs and lanes are taken with SKIP LOCKED, and what was missed is in the next snapshot. A plan that
-- was made with other rules, or before lanes came that precede it, takes nothing.
--
-- q: what it was asked for. plan: what it proposes. rules: what the types of the plan run under. now: the time. Answers with the jobs that
-- have started, in order; whether there is news for everybody; whether events were written; what is to be confirmed, as
-- opened_claim says it; and the snapshot, as jobs/snapshot.sql.
CREATE OR REPLACE FUNCTION {schema}.take(
  q {schema}.claim_request, plan {schema}.claim_plan, rules {schema}.limit_rule[], now float8,
  OUT jobs json, OUT everybody boolean, OUT told boolean, OUT granted json, OUT snapshot json
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- So many groups that jobs have come into are entered in any case: more of them than jobs are started, so that a backlog of
  -- them becomes smaller, and not so many that the claim takes much longer for it.
  few CONSTANT integer := 100;
  want integer := least(q.max, 10000);
  paused text[];
  types text[];
  others text[];
  weighing text[];
  outside boolean;
  busy boolean := false;
  changed boolean := false;
  again boolean := true;
  epoch bigint;
  done {schema}.planned_grants;
  written record;
  took float8;
BEGIN
  jobs := '[]';
  everybody := false;
  told := false;
  SELECT array_agg(p.type) INTO paused FROM {schema}.pauses p WHERE p.queue = q.queue;
  SELECT coalesce(array_agg(r.name) FILTER (WHERE r.weight IS NOT NULL), '{}') INTO weighing FROM unnest(rules) AS r;
  SELECT m.rules INTO epoch FROM {schema}.meta m;
  others := {schema}.waiting_types(q.queue);
  types := others;
  IF q.types IS NOT NULL THEN
    SELECT coalesce(array_agg(a.type ORDER BY a.place), '{}') INTO types
      FROM (SELECT u.type, min(u.place) AS place FROM unnest(q.types) WITH ORDINALITY AS u (type, place) GROUP BY u.type) a;
  END IF;
  outside := {schema}.fold_arrivals(q.queue, types, others, weighing, greatest(few, want, least(1000, 5 * want)),
    cardinality(plan.places) > 0 IS NOT TRUE, now);
  IF outside IS NULL THEN
    busy := true;
    outside := false;
  END IF;
  IF EXISTS (SELECT FROM {schema}.rules) THEN
    PERFORM {schema}.unblock_due(q.queue, types, now);
  END IF;
  IF paused IS NOT NULL THEN
    SELECT coalesce(array_agg(t.type ORDER BY t.place), '{}') INTO types
      FROM unnest(types) WITH ORDINALITY AS t (type, place) WHERE ':' || t.type <> ALL (paused);
  END IF;

  IF plan.epoch = epoch AND cardinality(plan.places) + cardinality(plan.emptied) > 0 AND NOT coalesce('' = ANY (paused), false)
    AND NOT {schema}.is_preceded(types, plan) THEN
    done := {schema}.grant_planned(q.queue, q.types, types, paused, plan, rules, want, q.bytes, q.grant_ttl, now);
    busy := busy OR done.missed;
    -- Read before the time of the starts: a request that seems to have come later than it did does no harm.
    took := greatest(0, {schema}.wall() - q.arrived);
    -- One of them may have been given back a moment ago: it starts after that. There is no less room by then.
    now := greatest(done.at, {schema}.present());
    SELECT * INTO written FROM {schema}.write_grants(q, plan, types, done, now - took, now);
    granted := written.granted;
    jobs := written.jobs;
    everybody := written.everybody;
    told := written.told;
    busy := busy OR written.taken;
    again := done.again;
    changed := done.jobs <> '{}' OR done.refused <> '{}' OR done.blocked <> '{}';
  END IF;
  outside := outside AND EXISTS (SELECT FROM unnest(types) AS t (type) WHERE EXISTS (SELECT FROM {schema}.arrivals a
    WHERE a.queue = q.queue AND a.type = t.type));
  snapshot := {schema}.snapshot(q, plan, types, paused, epoch, busy, changed, again, outside, greatest(now, {schema}.present()));
END
$$;
