-- Adds jobs that differ in nothing but their ids and data, and ask for no idempotency keys (jobs/add_alike.sql). Fails with
-- unique_violation if one of their ids is there already, or comes twice.
--
-- ids, data: with U+001F between each and the next, which is in no JSON: texts are taken apart much sooner than JSON is read.
-- columns: what is the same for all. teller, again, and the answer: as add_one.
CREATE OR REPLACE FUNCTION {schema}.add_many(ids text, data text, columns json, teller text, again boolean DEFAULT false)
RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
DECLARE
  id_list CONSTANT text[] := string_to_array(ids, chr(31));
  data_list CONSTANT text[] := string_to_array(data, chr(31));
  answer text;
BEGIN
  IF NOT again THEN
    answer := {schema}.add_alike(id_list, data_list, columns, false, teller);
    IF answer IS NOT NULL THEN
      RETURN answer;
    END IF;
  END IF;
  RETURN {schema}.add({schema}.listed(id_list, data_list, columns), again => again);
END
$$;
