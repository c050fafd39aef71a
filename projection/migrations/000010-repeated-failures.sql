-- Up Migration
-- An endpoint is disabled only after repeated failures, so each row counts the failed attempts and has the time of the
-- latest failure. Existing rows start with a count of one. If such a failure is older than two days, the next failure
-- starts a new period, so no endpoint is disabled because of failures that were never counted.
ALTER TABLE webhooks.failing_endpoint ADD COLUMN failures integer NOT NULL DEFAULT 1;
ALTER TABLE webhooks.failing_endpoint ALTER COLUMN failures DROP DEFAULT;
ALTER TABLE webhooks.failing_endpoint ADD COLUMN last_failed_at timestamptz;
UPDATE webhooks.failing_endpoint SET last_failed_at = since;
ALTER TABLE webhooks.failing_endpoint ALTER COLUMN last_failed_at SET NOT NULL;
