-- Up Migration
-- Partners filter the list of an endpoint's deliveries by status, type and time.

-- `failed`, `skipped` or `cancelled`; `none` for pending and delivered ones. So the value does not change when a
-- delivery succeeds, and such an update still changes no index (see 000014).
ALTER TABLE webhooks.delivery ADD COLUMN unsuccessful_status text NOT NULL
  GENERATED ALWAYS AS (CASE WHEN status IN ('failed', 'skipped', 'cancelled') THEN status ELSE 'none' END) STORED;

-- One index for all lists. A list reads the newest entries of each requested status and type, and merges them. With the
-- column `created_at` itself, Postgres would choose the index `delivery_age`, and read deliveries of all endpoints.
DROP INDEX webhooks.delivery_of_endpoint;
CREATE INDEX delivery_of_endpoint ON webhooks.delivery
  (endpoint_id, unsuccessful_status, event_type, (created_at AT TIME ZONE 'UTC') DESC, delivery_id);

-- query-api creates the body of a delivery again from the event. It cannot read stored bodies.
GRANT SELECT (unsuccessful_status, event_stream, event_revision) ON webhooks.delivery TO clinic_query;
GRANT SELECT (delivery_id, endpoint_id, round_attempt_count) ON webhooks.pending_delivery TO clinic_query;
