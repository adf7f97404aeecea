-- Writes down what was granted of a plan. Its jobs are locked, and so are the rows of its lanes. Answers with the jobs that have started,
-- in order; whether others are to be told; whether a lane that seemed empty has jobs which another transaction has locked
-- (`taken`); whether events were written; and what is to be confirmed, as opened_claim says it.
--
-- q, plan: what was asked for, and proposed. types: which may start. done: what was granted. began: when the request came; now: when
-- the jobs start. Both by the clock of the storage.
CREATE OR REPLACE FUNCTION {schema}.write_grants(
  q {schema}.claim_request, plan {schema}.claim_plan, types text[], done {schema}.planned_grants, began float8, now float8,
  OUT jobs json, OUT everybody boolean, OUT taken boolean, OUT told boolean, OUT granted json
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  wanted boolean := {schema}.events_wanted(done.at);
  count integer := cardinality(done.jobs);
  first bigint;
  number bigint;
  charged record;
  keys {schema}.claim_keys := done.keys;
  -- What each start took of limits, as its job keeps it.
  charges text[];
  -- Is what they hold of a state the same for all of them? Then it is one row.
  alike boolean[];
  state integer;
  freed record;
BEGIN
  jobs := '[]';
  everybody := false;
  taken := false;
  told := wanted AND (count > 0 OR done.refused <> '{}');
  IF count > 0 THEN
    first := nextval('{schema}.numbers');
    number := coalesce(plan.number, first);
    charges := array_fill(NULL::text, ARRAY[count]);
    IF done.use_starts <> '{}' THEN
      SELECT * INTO charged FROM {schema}.charge_keys(keys, done.weights, done.starts, done.slots, number, q.grant_ttl, began, now);
      IF charged.confirm_in IS NOT NULL THEN
        granted := json_build_array(number, charged.confirm_in);
      END IF;
      FOR i IN 1 .. cardinality(done.use_starts) LOOP
        state := done.use_states[i];
        charges[done.use_starts[i]] := concat(coalesce(charges[done.use_starts[i]] || ',', '['), '[', charged.ids[state],
          CASE WHEN done.use_weights[i] <> 1 THEN concat(',', charged.entries[state], ',', done.use_weights[i])
            WHEN charged.entries[state] <> 0 THEN ',' || charged.entries[state] END, ']');
      END LOOP;
      FOR i IN 1 .. count LOOP
        charges[i] := charges[i] || ']';
      END LOOP;
      IF done.hold_starts <> '{}' THEN
        alike := array_fill(false, ARRAY[cardinality(keys.states)]);
        FOR k IN 1 .. cardinality(keys.states) LOOP
          IF keys.alike[k] AND done.starts[keys.states[k]] = count THEN
            alike[keys.states[k]] := true;
          END IF;
        END LOOP;
        INSERT INTO {schema}.holds (limit_id, token, slots, at, n)
          SELECT charged.ids[k.state], -first, count, now, count FROM unnest(alike) WITH ORDINALITY AS k (alike, state) WHERE k.alike
          UNION ALL
          SELECT charged.ids[h.state], first + h.start - 1, h.slots, now, 1
            FROM unnest(done.hold_starts, done.hold_states, done.hold_slots) AS h (start, state, slots) WHERE NOT alike[h.state];
      END IF;
    END IF;
    jobs := ({schema}.start_jobs(done.jobs, first, q.queue, q.worker, q.claim, q.lease_ms, NULL, count, wanted, now, charges)).jobs;
  END IF;
  IF done.lanes <> '{}' OR done.emptied <> '{}' THEN
    WITH written AS (
      UPDATE {schema}.lanes l SET
        turn = CASE WHEN w.turn > 0 THEN first + w.turn - 1 ELSE l.turn END,
        served = coalesce(w.served, l.served),
        used_at = CASE WHEN w.gave THEN done.at ELSE l.used_at END,
        ready = CASE WHEN w.emptied THEN {schema}.head_of(l) IS NOT NULL ELSE l.ready END
      FROM (
        SELECT coalesce(g.id, e.id) AS id, g.turn, g.served, g.gave, e.id IS NOT NULL AS emptied
        FROM unnest(done.lanes, done.turns, done.served, done.gave) AS g (id, turn, served, gave)
          FULL JOIN (SELECT DISTINCT u.id FROM unnest(done.emptied) AS u (id)) e ON e.id = g.id
      ) w WHERE l.id = w.id
      RETURNING w.emptied AND l.ready AS taken
    ) SELECT coalesce(bool_or(w.taken), false) INTO taken FROM written w;
  END IF;
  IF done.refused <> '{}' THEN
    everybody := {schema}.refuse_jobs(q.queue, done, wanted);
  END IF;
  -- Lanes that waited only behind what has started now may start.
  FOR freed IN
    SELECT DISTINCT r.name, CASE WHEN (r.fields).by_group THEN f.grp END AS grp
    FROM unnest(done.freed_names, done.freed_grps) AS f (name, grp) JOIN {schema}.rules r ON r.name = f.name
  LOOP
    WITH behind AS (
      UPDATE {schema}.lanes l SET blocked_until = NULL
      WHERE l.blocked_by = freed.name AND l.blocked_until IS NOT NULL AND l.heavy IS NULL
        AND (freed.grp IS NULL OR l.grp = freed.grp)
      RETURNING l.id
    ) SELECT everybody OR count(*) > 0 INTO everybody FROM behind b;
  END LOOP;
  IF done.blocked <> '{}' THEN
    -- A head that waited already keeps its place.
    UPDATE {schema}.lanes l SET blocked_until = CASE WHEN b.wait = 'Infinity' THEN 1e18 ELSE done.at + b.wait END,
      blocked_by = b.name, heavy = b.heavy,
      heavy_since = CASE WHEN l.heavy IS NOT DISTINCT FROM b.heavy AND l.blocked_by IS NOT DISTINCT FROM b.name
        THEN l.heavy_since ELSE done.at END
    FROM unnest(done.blocked, done.blocked_waits, done.blocked_names, done.blocked_heavy) AS b (id, wait, name, heavy)
    WHERE l.id = b.id;
  END IF;
END
$$;
