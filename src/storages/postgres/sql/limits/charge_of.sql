-- What the start of a job with these weights takes. Where a rule has a window that is what is weighed, and concurrency
-- counts starts; else concurrency is. A job that says nothing counts for the estimate.
CREATE OR REPLACE FUNCTION {schema}.charge_of(meter {schema}.limit_meter, weights jsonb) RETURNS {schema}.limit_charge
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  said float8;
BEGIN
  IF meter.weight IS NULL THEN
    RETURN (1, 1)::{schema}.limit_charge;
  END IF;
  said := coalesce((weights ->> meter.weight)::float8, meter.estimate);
  IF meter.weighs_window THEN
    RETURN (said, 1)::{schema}.limit_charge;
  END IF;
  RETURN (1, said)::{schema}.limit_charge;
END
$$;
