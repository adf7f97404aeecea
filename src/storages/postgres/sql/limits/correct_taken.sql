-- A start took this of a limit that weighs its window, and really used so much; the last word holds. Inside the window its
-- place in the log changes; what becomes known after it has expired is charged from now on, and what has expired is not given
-- back. `taken` is what it took then, `given` what is_news has to hear.
CREATE OR REPLACE FUNCTION {schema}.correct_taken(
  kept {schema}.limits, started_at float8, used float8, now float8, INOUT taken jsonb, OUT given {schema}.limit_given[]
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  place bigint := coalesce((taken ->> 1)::bigint, 0);
  weight float8 := coalesce((taken ->> 2)::float8, 1);
  spent float8 := coalesce((taken ->> 3)::float8, 0);
  entry {schema}.starts := {schema}.find_entry(kept.id, place, coalesce((taken ->> 4)::float8, started_at));
  again {schema}.start_place;
  after float8;
BEGIN
  given := '{}';
  IF now - entry.at < kept.longest THEN
    after := greatest(0, used - spent);
    IF after = weight THEN
      RETURN;
    END IF;
    PERFORM {schema}.change_entry(entry, after - weight);
    IF after < weight THEN
      given := {schema}.window_freed(kept.name, kept.grp, now);
    ELSE
      PERFORM {schema}.charge_more(kept.id, after - weight);
    END IF;
    taken := jsonb_build_array(kept.id, place, after, spent)
      || CASE WHEN taken -> 4 IS NULL THEN '[]' ELSE jsonb_build_array(taken -> 4) END;
    RETURN;
  END IF;
  spent := spent + weight;
  taken := jsonb_build_array(kept.id, 0, 0, spent);
  IF used > spent THEN
    PERFORM {schema}.charge_more(kept.id, used - spent);
    again := {schema}.record_starts(kept.id, used - spent, now);
    taken := jsonb_build_array(kept.id, again.seq, used - spent, spent, again.at);
  END IF;
END
$$;
