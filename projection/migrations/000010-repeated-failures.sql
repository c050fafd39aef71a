-- Up Migration
-- An endpoint is now disabled only after repeated failures. So each row counts the failed attempts and stores the time
-- of the latest failure. Existing rows start with a count of one. If their failure is older than two days, the next
-- failure starts a new failure period. So uncounted failures never disable an endpoint.
ALTER TABLE webhooks.failing_endpoint ADD COLUMN failures integer NOT NULL DEFAULT 1;
ALTER TABLE webhooks.failing_endpoint ALTER COLUMN failures DROP DEFAULT;
ALTER TABLE webhooks.failing_endpoint ADD COLUMN last_failed_at timestamptz;
UPDATE webhooks.failing_endpoint SET last_failed_at = since;
ALTER TABLE webhooks.failing_endpoint ALTER COLUMN last_failed_at SET NOT NULL;
