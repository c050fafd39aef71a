-- Up Migration
-- Auditors see deliveries and attempts, but not the body, because the events contain the same data.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'clinic_audit') THEN CREATE ROLE clinic_audit NOLOGIN; END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; -- the migration of another database created the role first
END $$;

-- Finds the deliveries of a stream's events.
CREATE INDEX delivery_of_stream ON webhooks.delivery (event_stream);

GRANT USAGE ON SCHEMA webhooks TO clinic_audit;
GRANT SELECT (delivery_id, endpoint_id, clinic_id, application_id, event_id, event_type, event_stream, event_revision,
  status, correlation_id, next_attempt_at, created_at, updated_at) ON webhooks.delivery TO clinic_audit;
GRANT SELECT ON webhooks.attempt TO clinic_audit;
