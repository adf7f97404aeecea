-- Counts the starts of a walk under all of their limits. Answers with what is kept of that with each job, in order (NULL:
-- nothing), and when the claim is to be confirmed (NULL: never).
--
-- walked: what the claim came to. first: the token of the first start; the others follow. stamp: when they start. number, ttl, began:
-- as account_save.
CREATE OR REPLACE FUNCTION {schema}.take_walked(
  walked {schema}.walked, first bigint, number bigint, ttl float8, began float8, stamp float8, OUT answer jsonb[], OUT confirm_in float8
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  meter {schema}.limit_meter;
  saved record;
  -- Of each meter: its limit, where in the log its starts are, and whether something is held of it.
  ids bigint[] := '{}';
  entries bigint[] := '{}';
  holds boolean[] := '{}';
  pins boolean[] := '{}';
  kept record;
BEGIN
  answer := array_fill(NULL::jsonb, ARRAY[cardinality(walked.places)]);
  IF walked.use_starts = '{}' THEN
    RETURN;
  END IF;
  SELECT * INTO saved FROM {schema}.save_accounts(walked.accounts, number, ttl, began, stamp);
  IF ttl IS NOT NULL THEN
    SELECT {schema}.confirm_in(min(least(CASE WHEN m.max IS NOT NULL THEN m.window_ms END, m.every_ms))) INTO confirm_in
      FROM unnest(walked.meters) AS m JOIN unnest(walked.accounts) WITH ORDINALITY AS a ON a.ordinality = m.account
      WHERE a.starts > 0 AND (saved.entries[m.account] > 0 OR m.every_ms IS NOT NULL)
      HAVING count(*) > 0;
  END IF;
  FOR i IN 1 .. cardinality(walked.meters) LOOP
    meter := walked.meters[i];
    ids[i] := saved.ids[meter.account];
    entries[i] := saved.entries[meter.account];
    holds[i] := meter.holds;
    pins[i] := meter.pins;
  END LOOP;
  INSERT INTO {schema}.holds (limit_id, token, slots, at)
    SELECT ids[u.meter], first + u.start - 1, CASE WHEN holds[u.meter] THEN u.slots ELSE 0 END, stamp
    FROM unnest(walked.use_starts, walked.use_meters, walked.use_slots) AS u (start, meter, slots)
    WHERE holds[u.meter] OR pins[u.meter];
  FOR kept IN
    -- Of limits that share a name the start counts once, for the most that any of them says.
    SELECT u.start, jsonb_agg(CASE WHEN u.weight <> 1 THEN jsonb_build_array(u.id, u.entry, u.weight)
      WHEN u.entry <> 0 THEN jsonb_build_array(u.id, u.entry) ELSE jsonb_build_array(u.id) END ORDER BY u.place) AS limits
    FROM (
      SELECT t.start, ids[t.meter] AS id, entries[t.meter] AS entry, max(t.weight) AS weight, min(t.place) AS place
      FROM unnest(walked.use_starts, walked.use_meters, walked.use_weights) WITH ORDINALITY AS t (start, meter, weight, place)
      GROUP BY 1, 2, 3
    ) u GROUP BY u.start
  LOOP
    answer[kept.start] := kept.limits;
  END LOOP;
END
$$;
