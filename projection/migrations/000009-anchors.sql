-- Up Migration
-- Anchor: the last event that was processed at or before the checkpoint. It identifies the log of the checkpoint. The
-- columns are null until the relay moves the checkpoint for the first time after this migration.
ALTER TABLE webhooks.relay_checkpoint ADD COLUMN anchor_position bigint, ADD COLUMN anchor_event_id uuid;

-- Events of unknown types are no longer counted, because they stop the projection. Processes of the previous release
-- still write the column while both releases run.
ALTER TABLE projection.process_status ALTER COLUMN unknown_events SET DEFAULT 0;

-- Counts failed deliveries for the operator's status.
CREATE INDEX delivery_failed ON webhooks.delivery (delivery_id) WHERE status = 'failed';
