-- Ends leases, one for each job.
--
-- outcomes: a list, as lock_leases takes it; or, where all of them ended well, {ids, tokens, results}, as complete_plainly does.
-- again: as lock_leases. Answer: {stale: [numbers of outcomes whose lease was lost], woken, everybody, events, ends}.
CREATE OR REPLACE FUNCTION {schema}.settle(outcomes json, again boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
  SET enable_indexscan = on SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
  SET enable_memoize = off AS $$
DECLARE
  now float8;
  alone boolean := {schema}.many_rules();
  begun boolean := {schema}.begin_step(alone) IS NULL;
  ruled boolean := EXISTS (SELECT FROM {schema}.rules);
  plain record;
  tokens bigint[] := '{}';
  limited boolean := false;
  names text[] := '{}';
  held record;
  leases {schema}.ended_lease[];
  given {schema}.limit_given[];
  done record;
  everybody boolean := false;
  ends_told boolean := false;
BEGIN
  now := {schema}.present();
  IF json_typeof(outcomes) = 'object' THEN
    SELECT * INTO plain FROM json_to_record(outcomes) AS r (ids text[], tokens bigint[], results jsonb);
    IF NOT {schema}.events_wanted(now) THEN
      tokens := {schema}.complete_plainly(plain.ids, plain.tokens, plain.results,
        (SELECT j.keep_for IS DISTINCT FROM 0 FROM {schema}.jobs j WHERE j.id = plain.ids[1]), now);
      limited := ruled AND cardinality(tokens) > 0;
      IF cardinality(tokens) = cardinality(plain.ids) AND NOT limited THEN
        RETURN CASE WHEN {schema}.tell_ends(plain.ids, now) THEN '{"stale": [], "ends": true}' ELSE '{"stale": []}' END;
      END IF;
      ends_told := cardinality(tokens) > 0 AND {schema}.tell_ends(plain.ids, now);
    END IF;
    outcomes := {schema}.outcomes_of(plain.ids, plain.tokens, plain.results, tokens);
  END IF;
  SELECT * INTO held FROM {schema}.lock_leases(outcomes, again);
  IF cardinality(held.ats) = 0 AND NOT limited THEN
    RETURN json_build_object('stale', held.stale, 'woken', held.woken, 'everybody', false, 'events', false, 'ends', ends_told);
  END IF;
  IF limited THEN
    tokens := CASE WHEN cardinality(tokens) = cardinality(plain.tokens) THEN plain.tokens
      ELSE ARRAY(SELECT t FROM unnest(tokens) AS t ORDER BY t) END;
    names := {schema}.limits_of_tokens(tokens);
  END IF;
  IF cardinality(held.ats) > 0 AND (held.took OR ruled) THEN
    leases := {schema}.ended_leases(outcomes, held.ats, held.ns);
    names := names || {schema}.limits_of(leases);
  END IF;
  IF NOT alone AND cardinality(names) > 0 THEN
    PERFORM {schema}.lock_limits(names);
  END IF;
  now := {schema}.moment();
  IF limited THEN
    given := {schema}.give_tokens(tokens, NULL, now);
  END IF;
  IF leases IS NOT NULL THEN
    given := given || {schema}.give_back(leases, now);
  END IF;
  SELECT * INTO done FROM {schema}.end_leases(outcomes, held.ats, held.ns, held.tos, held.results, now);
  IF given IS NOT NULL THEN
    everybody := {schema}.is_news(given, now);
  END IF;
  RETURN json_build_object('stale', held.stale, 'woken', coalesce(done.woken, held.woken), 'everybody', everybody, 'events', done.told, 'ends', ends_told);
END
$$;
