-- Has a job come that a plan did not know of, into lanes that have their turns together, and is first there now?
CREATE OR REPLACE FUNCTION {schema}.is_preceded(types text[], plan {schema}.claim_plan) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT plan.known IS NOT NULL AND EXISTS (
    SELECT FROM unnest(plan.front_lanes, plan.front_dues, plan.front_seqs) AS f (lane, due_at, seq)
      JOIN LATERAL (SELECT a.* FROM {schema}.lanes a WHERE a.id = f.lane OFFSET 0) l
        ON l.ready AND l.blocked_until IS NULL AND l.type = ANY (types)
      CROSS JOIN LATERAL (
        (SELECT j.due_at, j.seq FROM {schema}.jobs j
          WHERE l.grp = '' AND j.queue = l.queue AND j.type = l.type AND j.priority = l.priority AND j.state = 'waiting' AND j.grp IS NULL
          ORDER BY j.due_at, j.seq LIMIT 1)
        UNION ALL
        (SELECT j.due_at, j.seq FROM {schema}.jobs j
          WHERE l.grp <> '' AND j.queue = l.queue AND j.type = l.type AND j.priority = l.priority AND j.state = 'waiting'
            AND j.grp IS NOT NULL AND j.grp = substr(l.grp, 2)
          ORDER BY j.due_at, j.seq LIMIT 1)) h
    WHERE (h.due_at, h.seq) < (f.due_at, f.seq))
$$;
