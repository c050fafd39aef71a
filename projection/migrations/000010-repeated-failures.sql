-- Up Migration
-- An endpoint is disabled only after repeated failures, so each period of failures counts its failed attempts and
-- keeps the time of the latest. Of a period that began earlier only one failure is known: one that is older than two
-- days starts again with the next failure, so no endpoint is disabled for what was never counted.
ALTER TABLE webhooks.failing_endpoint ADD COLUMN failures integer NOT NULL DEFAULT 1;
ALTER TABLE webhooks.failing_endpoint ALTER COLUMN failures DROP DEFAULT;
ALTER TABLE webhooks.failing_endpoint ADD COLUMN last_failed_at timestamptz;
UPDATE webhooks.failing_endpoint SET last_failed_at = since;
ALTER TABLE webhooks.failing_endpoint ALTER COLUMN last_failed_at SET NOT NULL;
