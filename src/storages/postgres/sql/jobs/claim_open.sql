-- A claim that needs no lanes: nobody waits in a group, and all jobs that it may take run under the same limits, or under none, and
-- count for one under each of them. The locks of all names in `rules` are held.
--
-- queue, worker, claim, lease_ms: who claims, by which claim, for how long. max: how many at most. ahead: so many
-- more, if there are no limits; of these only such as are tried for the first time and may be again. bytes: so much data at most. asked: of which types; NULL: of any. types: those
-- of them that it takes; decided: these run under `rules`, and others may not (way_of.sql). sign: what the claim saw first; its
-- head_type is NULL where that need not be so any more. ttl: they are called within so long, which is confirmed; arrived: when the
-- request came, by the clock of the server; NULL: they are called at once. now: the time. Answers with the jobs that have started, in order (NULL:
-- none), and what storage/job-storage.ts says of a claim (next_in: NULL or Infinity where no clock can tell; counted from `at`);
-- told: events were written.
CREATE OR REPLACE FUNCTION {schema}.claim_open(queue text, worker text, claim bigint, max integer, ahead integer,
  bytes float8, asked text[], types text[], decided boolean, lease_ms float8, rules {schema}.limit_rule[], sign {schema}.claim_signs,
  ttl float8, arrived float8, now float8)
RETURNS {schema}.opened_claim
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- So soon it is worth looking for a job that somebody else has his hands on.
  soon_ms CONSTANT float8 := 100;
  limited boolean := cardinality(rules) > 0;
  first_only boolean := coalesce(cardinality(types) = 1 AND types[1] = sign.head_type, false);
  opened {schema}.opened_claim;
  keys {schema}.claim_keys;
  charged record;
  refusal record;
  limits jsonb;
  wait float8 := 0;
  picked tid[];
  total float8;
  first bigint;
  started {schema}.started_jobs;
  waits boolean := false;
  busy boolean := false;
  took float8;
BEGIN
  IF limited THEN
    keys := {schema}.open_keys(rules, cardinality(rules), '{}', max, ttl, now);
    now := keys.at;
    max := least(max, {schema}.available_starts(keys));
    ahead := 0;
  END IF;
  IF cardinality(types) > 0 THEN
    IF max + ahead > 0 THEN
      IF first_only THEN
        picked := {schema}.pick_first(queue, sign.head_type, sign.head_priority, sign.head_due_at, sign.head_seq,
          max + ahead, now);
      ELSE
        picked := {schema}.pick_open(queue, types, max + ahead, sign.marked, now);
      END IF;
      busy := cardinality(picked) < max + ahead;
      IF cardinality(picked) > 0 THEN
        -- Read before the time of the starts: a request that seems to have come later than it did does no harm.
        took := greatest(0, {schema}.wall() - arrived);
        -- One of them may have been given back a moment ago: it starts after that. No less is available by then.
        SELECT nextval('{schema}.numbers'), greatest(now, m.last, {schema}.wall() + m.skew),
          (SELECT sum(octet_length(j.data)) FROM {schema}.jobs j WHERE j.ctid = ANY (picked))
        INTO first, now, total FROM {schema}.meta m;
        IF total > bytes THEN
          picked := {schema}.first_bytes(picked, bytes);
          busy := false;
        END IF;
        IF limited THEN
          SELECT * INTO charged FROM {schema}.charge_uniform(keys, cardinality(picked), first, ttl, now - took, now);
          limits := charged.taken;
          IF charged.confirm_in IS NOT NULL THEN
            opened.granted := json_build_array(first, charged.confirm_in);
          END IF;
        END IF;
        started := {schema}.start_jobs(picked, first, queue, worker, claim, lease_ms, limits, max, sign.heard, now);
        -- What was left alone is to be had.
        busy := busy AND started.count = cardinality(picked);
      END IF;
    END IF;
    IF first_only THEN
      waits := {schema}.any_after(queue, sign.head_type, sign.head_priority, coalesce(started.due_at, sign.head_due_at),
      coalesce(started.seq, sign.head_seq), now);
    ELSE
      waits := {schema}.any_open(queue, types, sign.marked, now);
    END IF;
  END IF;
  opened.jobs := started.jobs;
  opened.told := sign.heard AND started.count > 0;
  opened.at := now;
  IF limited THEN
    SELECT * INTO refusal FROM {schema}.next_refusal(keys, rules, coalesce(started.count, 0), now);
    wait := refusal.wait;
    opened.blocked_by := CASE WHEN waits THEN refusal.blocked_by END;
  END IF;
  opened.more := waits AND NOT busy AND wait = 0;
  opened.next_in := CASE WHEN NOT waits THEN {schema}.next_due(queue, asked, NULL) - now WHEN busy THEN soon_ms ELSE 0 END;
  IF opened.next_in IS NOT NULL THEN
    -- While the limits are full it makes no sense to ask again, even if a job comes due before.
    opened.next_in := greatest(opened.next_in, wait);
  END IF;
  IF decided AND wait > 0 THEN
    -- Unless it is of a type that runs under others.
    opened.next_in := least(opened.next_in, {schema}.next_due(queue, NULL, types) - now);
  END IF;
  RETURN opened;
END
$$;
