-- How many entries of the index of jobs that wait without a group were passed on this connection, of late, whether or not anybody still
-- waits there. What is counted of a look is the difference.
CREATE OR REPLACE FUNCTION {schema}.passed() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
  SELECT pg_stat_get_xact_tuples_returned('{schema}.jobs_open'::regclass)
$$;
