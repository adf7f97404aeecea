-- What comes after a claim. While limits are full it makes no sense to ask again, even if a job comes due before. next_in: NULL
-- where no clock can tell.
--
-- queue_name, asked: of which queue, which types were asked for; NULL: any. types: those that wait and may start. paused: as
-- `pauses` says it, or NULL. rules: what they run under. blocks: may lanes be blocked? walked: what the claim came to.
CREATE OR REPLACE FUNCTION {schema}.outlook(
  queue_name text, asked text[], types text[], paused text[], rules {schema}.limit_rule[], blocks boolean,
  walked {schema}.walked, OUT more boolean, OUT next_in float8, OUT blocked_by text
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- How far ahead scheduled jobs are looked through.
  ahead CONSTANT integer := 64;
  now float8 := walked.at;
  meter {schema}.limit_meter;
  -- How long one more waits for each of the limits for all.
  names text[] := '{}';
  waits float8[] := '{}';
  lane record;
  coming record;
  general record;
  own float8;
  due float8 := 'Infinity';
  due_by text;
  looked integer := 0;
  last_due float8;
BEGIN
  more := false;
  blocked_by := walked.blocked_by;
  next_in := walked.next_in;
  FOR i IN 1 .. coalesce(cardinality(walked.meters), 0) LOOP
    meter := walked.meters[i];
    EXIT WHEN meter.by_group;
    names := names || meter.name;
    waits := waits || {schema}.limit_wait(meter, walked.accounts[meter.account], 1, 1, now);
  END LOOP;
  IF blocks THEN
    FOR lane IN
      SELECT t.type, f.grp, f.blocked_by AS name,
        CASE WHEN f.blocked_until >= 1e18 THEN 'Infinity'::float8 ELSE greatest(0, f.blocked_until - now) END AS wait
      FROM unnest(types) WITH ORDINALITY AS t (type, place)
        CROSS JOIN LATERAL {schema}.first_blocked(queue_name, t.type) AS f
      WHERE f.id IS NOT NULL ORDER BY t.place
    LOOP
      SELECT * INTO general FROM {schema}.earliest(rules, names, waits, lane.type);
      own := greatest(lane.wait, general.wait);
      -- Its instant has come, and too many others came before it in this step.
      IF own = 0 THEN
        more := true;
        next_in := 0;
        RETURN;
      END IF;
      IF blocked_by IS NULL OR own < next_in THEN
        blocked_by := CASE WHEN lane.wait < general.wait THEN general.name ELSE lane.name
          || CASE WHEN lane.grp <> '' AND (SELECT (r.rule ->> 'byGroup')::boolean FROM {schema}.rules r WHERE r.name = lane.name)
            THEN '[' || substr(lane.grp, 2) || ']' ELSE '' END END;
      END IF;
      next_in := least(next_in, own);
    END LOOP;
  END IF;
  IF walked.more THEN
    more := true;
    next_in := 0;
    RETURN;
  END IF;
  -- When the next scheduled job can start; and what is in its way, if it is due: it waits, whether or not it stands in its
  -- lane yet. Those behind may come due for somebody whom no limit keeps back.
  FOR coming IN
    SELECT j.type, j.due_at FROM {schema}.jobs j WHERE j.queue = queue_name AND j.state = 'scheduled'
    ORDER BY j.due_at LIMIT ahead
  LOOP
    looked := looked + 1;
    last_due := coming.due_at;
    CONTINUE WHEN (asked IS NOT NULL AND coming.type <> ALL (asked)) OR ':' || coming.type = ANY (paused);
    SELECT * INTO general FROM {schema}.earliest(rules, names, waits, coming.type);
    IF coming.due_at <= now AND general.name IS NOT NULL AND (due_by IS NULL OR general.wait < due) THEN
      due_by := general.name;
    END IF;
    due := least(due, greatest(coming.due_at - now, general.wait));
  END LOOP;
  IF looked = ahead THEN
    due := least(due, greatest(0, last_due - now));
  END IF;
  IF due_by IS NOT NULL AND (blocked_by IS NULL OR due < next_in) THEN
    blocked_by := due_by;
  END IF;
  next_in := nullif(least(next_in, due), 'Infinity');
END
$$;
