-- Up Migration
-- An endpoint can ask for the events of each appointment in order. At most one pending delivery of an endpoint and
-- appointment may then be sent, the earliest. The others are held. Held rows are in no index that a claim reads.
ALTER TABLE webhooks.pending_delivery
  -- Appointment whose events are sent in order; null if the endpoint did not ask for it.
  ADD COLUMN ordering_key uuid,
  -- Revision of the event in the appointment's stream; null without ordering key.
  ADD COLUMN event_revision bigint,
  -- True while an earlier delivery of the same endpoint and appointment is pending.
  ADD COLUMN is_held boolean NOT NULL DEFAULT false;

DROP INDEX webhooks.pending_delivery_first;
DROP INDEX webhooks.pending_delivery_retry;
CREATE INDEX pending_delivery_first ON webhooks.pending_delivery (endpoint_id, next_attempt_at)
  WITH (deduplicate_items = off) WHERE round_attempt_count = 0 AND NOT is_held;
CREATE INDEX pending_delivery_retry ON webhooks.pending_delivery (endpoint_id, next_attempt_at)
  WITH (deduplicate_items = off) WHERE round_attempt_count > 0 AND NOT is_held;

-- Prevents two deliveries of one endpoint and appointment from being sent at the same time.
CREATE UNIQUE INDEX pending_delivery_head ON webhooks.pending_delivery (endpoint_id, ordering_key)
  WHERE ordering_key IS NOT NULL AND NOT is_held;
CREATE INDEX pending_delivery_held ON webhooks.pending_delivery (endpoint_id, ordering_key, event_revision)
  WHERE is_held;
