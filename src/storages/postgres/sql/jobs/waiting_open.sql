-- Jobs without a group that wait, by type: how many of a higher priority than a job; of its own; of these, how many come before
-- it; and which is the first of them. Up to 10,000 of each.
CREATE OR REPLACE FUNCTION {schema}.waiting_open(own {schema}.jobs)
RETURNS TABLE (type text, higher bigint, waiting bigint, before bigint, first bigint)
LANGUAGE sql STABLE AS $$
  SELECT t.type,
    (SELECT count(*) FROM (SELECT FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = t.type AND j.state = 'waiting'
      AND j.grp IS NULL AND j.priority > own.priority LIMIT 10000) h),
    (SELECT count(*) FROM (SELECT FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = t.type AND j.state = 'waiting'
      AND j.grp IS NULL AND j.priority = own.priority LIMIT 10000) w),
    (SELECT count(*) FROM (SELECT FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = t.type AND j.state = 'waiting'
      AND j.grp IS NULL AND j.priority = own.priority AND (j.due_at, j.seq) < (own.due_at, own.seq)
      LIMIT 10000) b),
    (SELECT j.seq FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = t.type AND j.state = 'waiting'
      AND j.grp IS NULL AND j.priority = own.priority ORDER BY j.due_at, j.seq LIMIT 1)
  FROM unnest({schema}.waiting_types(own.queue)) AS t (type)
$$;
