-- A job as all steps answer with it: its columns in the order of jobs/record.ts. Without their names, for those would be most
-- of the answer; and without the last of them where they are empty, as they almost always are. A plan for retries that says nothing
-- of its own is NULL. Instants are those of the clock of the server, which the clock of the storage is ahead of by `skew`.
CREATE OR REPLACE FUNCTION {schema}.job_json(j {schema}.jobs, skew float8) RETURNS json
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN j.grp IS NULL AND j.weights IS NULL AND j.timeout IS NULL AND j.deadline IS NULL AND j.holds = 0
      AND j.finished_at IS NULL AND NOT j.cancel_requested AND j.progress IS NULL AND j.error IS NULL AND j.idempotency_key IS NULL
    THEN json_build_array(j.seq, j.id, j.queue, j.type, j.state, j.priority, j.data, j.attempt, j.max_attempts,
      nullif(j.backoff, '{"kind":"exponential","initial":1000,"max":600000}'), j.keep_for, j.created_at - skew,
      coalesce(j.due_wall, j.due_at - skew), j.started_at - skew,
      j.worker, j.lease_until - skew, j.token)
    ELSE json_build_array(j.seq, j.id, j.queue, j.type, j.state, j.priority, j.data, j.attempt, j.max_attempts,
      nullif(j.backoff, '{"kind":"exponential","initial":1000,"max":600000}'), j.keep_for, j.created_at - skew,
      coalesce(j.due_wall, j.due_at - skew), j.started_at - skew,
      j.worker, j.lease_until - skew, j.token, j.grp, j.weights, j.timeout,
      coalesce(j.deadline_wall, j.deadline - skew), j.holds, j.finished_at - skew, j.cancel_requested,
      j.progress, j.result, j.error, j.idempotency_key) END
$$;
