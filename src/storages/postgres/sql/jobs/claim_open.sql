-- A claim that needs no lanes: nobody waits in a group, and all jobs that it may take run under the same limits, or under none, and
-- count for one under each of them. The locks of all names in `rules` are held.
--
-- queue, worker, claim, lease_ms: who claims, by which claim, for how long. max: how many at most. ahead: so many
-- more, if there are no limits; of these none whose last attempt it would be. asked: of which types; NULL: of any. types: those
-- of them that it takes; decided: these run under `rules`, and others may not (way_of.sql). heard: somebody wants to hear what
-- happens. now: the time. Answers with the jobs that have started, in order (NULL: none), and what storage/job-storage.ts
-- says of a claim (next_in: NULL or Infinity where no clock can tell); told: events were written.
CREATE OR REPLACE FUNCTION {schema}.claim_open(queue text, worker text, claim text, max integer, ahead integer,
  asked text[], types text[], decided boolean, lease_ms float8, rules {schema}.limit_rule[], heard boolean, now float8,
  OUT jobs json, OUT more boolean, OUT next_in float8, OUT blocked_by text, OUT told boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- So soon it is worth looking for a job that somebody else has his hands on.
  soon_ms CONSTANT float8 := 100;
  limited boolean := cardinality(rules) > 0;
  room {schema}.limit_room;
  wait float8 := 0;
  picked tid[];
  first bigint;
  count integer;
  waits boolean := false;
  busy boolean := false;
BEGIN
  told := false;
  IF limited THEN
    room := {schema}.claim_room(rules, now);
    now := room.at;
    max := least(max, room.free);
    ahead := 0;
  END IF;
  IF cardinality(types) > 0 THEN
    IF max + ahead > 0 THEN
      picked := {schema}.pick_open(queue, types, max + ahead, now);
      busy := cardinality(picked) < max + ahead;
      IF cardinality(picked) > 0 THEN
        first := nextval('{schema}.numbers');
        IF limited THEN
          room := {schema}.take_uniform(room, cardinality(picked), first);
        ELSE
          -- One of them may have been given back a moment ago: it starts after that.
          now := greatest(now, {schema}.present());
        END IF;
        SELECT s.jobs, s.count INTO jobs, count
        FROM {schema}.start_jobs(picked, first, worker, claim, lease_ms, room.taken, max, heard, now) s;
        -- What was left alone is to be had.
        busy := busy AND count = cardinality(picked);
        told := heard;
      END IF;
    END IF;
    waits := {schema}.any_open(queue, types, now);
  END IF;
  IF limited THEN
    wait := coalesce(room.wait, 0);
    blocked_by := CASE WHEN waits THEN room.blocked_by END;
  END IF;
  more := waits AND NOT busy AND wait = 0;
  next_in := CASE WHEN NOT waits THEN {schema}.next_due(queue, asked, NULL) - now WHEN busy THEN soon_ms ELSE 0 END;
  IF next_in IS NOT NULL THEN
    -- While the limits are full it makes no sense to ask again, even if a job comes due before.
    next_in := greatest(next_in, wait);
  END IF;
  IF decided AND wait > 0 THEN
    -- Unless it is of a type that runs under others.
    next_in := least(next_in, {schema}.next_due(queue, NULL, types) - now);
  END IF;
END
$$;
