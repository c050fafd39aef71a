-- Up Migration
-- The last event that was handled at or before the checkpoint identifies the log that the checkpoint belongs to.
-- Null until the relay moves the checkpoint for the first time after this migration.
ALTER TABLE webhooks.relay_checkpoint ADD COLUMN anchor_position bigint, ADD COLUMN anchor_event_id uuid;

-- Events of unknown types are no longer counted: they stop the projection. Processes of the release before this one
-- still write the column while both run.
ALTER TABLE projection.process_status ALTER COLUMN unknown_events SET DEFAULT 0;

-- For the operator's status.
CREATE INDEX delivery_failed ON webhooks.delivery (delivery_id) WHERE status = 'failed';
