-- Did a look pass so many entries, since there were `before` (jobs/passed.sql), that the next one should begin at a mark? That
-- takes some milliseconds; where the server can clean up it does not come to that.
CREATE OR REPLACE FUNCTION {schema}.passed_many(before bigint) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT {schema}.passed() - before > 5000
$$;
