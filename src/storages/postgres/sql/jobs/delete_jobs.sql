-- Deletes jobs, by their numbers and ids (in the same order), with all that is kept of them. Their rows are locked already.
CREATE OR REPLACE FUNCTION {schema}.delete_jobs(seqs bigint[], ids text[]) RETURNS void
LANGUAGE sql VOLATILE AS $$
  DELETE FROM {schema}.attempts a WHERE a.job = ANY (seqs);
  DELETE FROM {schema}.log l WHERE l.job = ANY (seqs);
  DELETE FROM {schema}.jobs j WHERE j.id = ANY (ids);
$$;
