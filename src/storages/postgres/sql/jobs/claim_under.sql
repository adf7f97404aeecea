-- A claim under limits or among groups: groups that jobs have come into get their lanes, the lanes are walked over
-- (jobs/walk.sql), and what that came to is written down. The locks of the queue and of all names in `rules` are held; what is
-- to be settled is settled, and what has come due waits.
--
-- queue_name, worker_name, claim_name, lease_ms: who claims, by which claim, for how long. want: how many at most; bytes: with so much
-- data at most. asked: of
-- which types; NULL: of any. rules: what they run under. ttl, arrived: as claim_open. now: the time. Answers with the jobs that have
-- started, in order; what storage/job-storage.ts says of a claim (next_in: NULL where no clock can tell); whether there is news for
-- everybody; whether events were written; and what is to be confirmed, as opened_claim says it.
CREATE OR REPLACE FUNCTION {schema}.claim_under(
  queue_name text, worker_name text, claim_name bigint, want integer, bytes float8, asked text[], lease_ms float8,
  rules {schema}.limit_rule[], ttl float8, arrived float8, now float8,
  OUT jobs json, OUT more boolean, OUT next_in float8, OUT blocked_by text, OUT everybody boolean, OUT told boolean,
  OUT granted json
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- So soon it is worth looking for a job that somebody else has his hands on. It may be a transaction that stays open: only
  -- where others start, too, whoever has it is likely to be done with it.
  soon_ms CONSTANT float8 := 10;
  later_ms CONSTANT float8 := 100;
  paused text[];
  types text[];
  others text[];
  weighing text[];
  blocks boolean;
  -- So many groups that jobs have come into are heard of in any case: more of them than jobs are started, so that a backlog of
  -- them becomes smaller, and not so many that the claim takes much longer for it.
  few CONSTANT integer := 100;
  outside boolean;
  without bigint[] := '{}';
  walked {schema}.walked;
  missed bigint[];
  written record;
  ahead record;
  took float8;
BEGIN
  jobs := '[]';
  more := false;
  everybody := false;
  told := false;
  SELECT array_agg(p.type) INTO paused FROM {schema}.pauses p WHERE p.queue = queue_name;
  IF '' = ANY (paused) THEN
    RETURN;
  END IF;
  SELECT coalesce(bool_or(r.by_group OR r.weight IS NOT NULL), false),
      coalesce(array_agg(r.name) FILTER (WHERE r.weight IS NOT NULL), '{}')
    INTO blocks, weighing FROM unnest(rules) AS r;
  others := {schema}.waiting_types(queue_name);
  types := others;
  IF asked IS NOT NULL THEN
    SELECT coalesce(array_agg(a.type ORDER BY a.place), '{}') INTO types
      FROM (SELECT u.type, min(u.place) AS place FROM unnest(asked) WITH ORDINALITY AS u (type, place) GROUP BY u.type) a;
  END IF;
  outside := {schema}.let_in(queue_name, types, others, weighing, greatest(few, want, least(1000, 5 * want)), now);
  IF blocks THEN
    PERFORM {schema}.unblock_ripe(queue_name, types, now);
  END IF;
  IF paused IS NOT NULL THEN
    SELECT coalesce(array_agg(t.type ORDER BY t.place), '{}') INTO types
      FROM unnest(types) WITH ORDINALITY AS t (type, place) WHERE ':' || t.type <> ALL (paused);
  END IF;
  LOOP
    walked := {schema}.walk(queue_name, asked, types, rules, want, bytes, without, ttl, now);
    -- Somebody may have changed a job since it was read, or be about to: then it is not to be had, and the walk goes another way.
    missed := {schema}.lock_walked(walked);
    EXIT WHEN missed IS NULL;
    without := without || missed;
  END LOOP;
  -- Read before the time of the starts: a request that seems to have come later than it did does no harm.
  took := greatest(0, {schema}.wall() - arrived);
  -- One of them may have been given back a moment ago: it starts after that. There is no less room by then.
  now := greatest(walked.at, {schema}.present());
  SELECT * INTO written FROM {schema}.write_walk(queue_name, worker_name, claim_name, lease_ms, types, walked, ttl, now - took, now,
    NULL);
  granted := written.granted;
  jobs := written.jobs;
  everybody := written.everybody;
  told := written.told;
  -- Some groups have not come in: they were too many.
  outside := outside AND EXISTS (SELECT FROM unnest(types) AS t (type) WHERE EXISTS (SELECT FROM {schema}.arrivals a
    WHERE a.queue = queue_name AND a.type = t.type));
  walked.more := walked.more OR written.others_may_look OR (outside AND cardinality(walked.places) < want);
  SELECT * INTO ahead FROM {schema}.outlook(queue_name, asked, types, paused, rules, blocks, walked);
  more := ahead.more;
  next_in := ahead.next_in;
  blocked_by := ahead.blocked_by;
  IF (written.taken OR outside OR without <> '{}') AND NOT more THEN
    next_in := least(next_in, CASE WHEN walked.places <> '{}' THEN soon_ms ELSE later_ms END);
  END IF;
END
$$;
