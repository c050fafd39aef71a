-- Up Migration
-- Time of the last `WebhookEndpointFailureReported` event in the failure period; null if there was none.
ALTER TABLE webhooks.failing_endpoint ADD COLUMN reported_at timestamptz;
