-- Up Migration
-- Splits the state of pending deliveries from the record of all deliveries. Leases, retries and the body change or end
-- with the delivery, so they move to a small table. An update of `delivery` then changes no index and copies no body.

-- One row for each delivery with the status `pending`. The row is deleted in the transaction that ends the delivery.
CREATE TABLE webhooks.pending_delivery (
  delivery_id uuid PRIMARY KEY,
  endpoint_id uuid NOT NULL,
  branch_id uuid,
  body text NOT NULL,                  -- the JSON that is signed and sent
  next_attempt_at timestamptz NOT NULL,
  -- Number of attempts in the current round whose outcome is recorded. Attempts with an unknown outcome do not count.
  round_attempt_count integer NOT NULL,
  attempt_count integer NOT NULL,      -- number of all attempts, including attempts in progress
  -- Set while a process attempts the delivery. Not indexed, so that a claim changes no index. The rows of an endpoint
  -- that are due but leased are few, because slots limit them.
  lease_expires_at timestamptz
) WITH (fillfactor = 50);

INSERT INTO webhooks.pending_delivery
SELECT delivery_id, endpoint_id, branch_id, body, COALESCE(next_attempt_at, created_at),
       -- Until now, the number included the attempt that holds the lease.
       round_attempt_count - CASE WHEN lease_expires_at IS NULL THEN 0 ELSE 1 END, attempt_count, lease_expires_at
  FROM webhooks.delivery
 WHERE status = 'pending';

-- The indexes start with the endpoint, so that thousands of due deliveries of one endpoint do not slow down other
-- endpoints. Without deduplication, each entry can be marked dead separately (see 000008).
CREATE INDEX pending_delivery_first ON webhooks.pending_delivery (endpoint_id, next_attempt_at)
  WITH (deduplicate_items = off) WHERE round_attempt_count = 0;
CREATE INDEX pending_delivery_retry ON webhooks.pending_delivery (endpoint_id, next_attempt_at)
  WITH (deduplicate_items = off) WHERE round_attempt_count > 0;

-- From here on, no index depends on a column that changes when a delivery succeeds. Postgres then keeps the new version
-- of the row on the same page, for which the fill factor leaves space.
DROP INDEX webhooks.delivery_age;
DROP INDEX webhooks.delivery_failed;
ALTER TABLE webhooks.delivery SET (fillfactor = 55);
ALTER TABLE webhooks.delivery
  DROP COLUMN due_at,
  DROP COLUMN lease_expires_at,
  DROP COLUMN round_attempt_count,
  DROP COLUMN body,
  ADD COLUMN is_failed boolean NOT NULL GENERATED ALWAYS AS (status = 'failed') STORED;
CREATE INDEX delivery_age ON webhooks.delivery (created_at);
CREATE INDEX delivery_failed ON webhooks.delivery (delivery_id) WHERE is_failed;
