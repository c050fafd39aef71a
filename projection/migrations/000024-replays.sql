-- Up Migration
-- Progress of replays of several deliveries. A row is inserted when the first batch is processed.
CREATE TABLE webhooks.replay (
  replay_id uuid PRIMARY KEY,
  next_created_at timestamptz,         -- earliest time of creation of the remaining deliveries; null before the first batch
  replayed_count integer NOT NULL DEFAULT 0,
  not_replayed_count integer NOT NULL DEFAULT 0,
  outcome text,                        -- completed or stopped; null until the replay has ended
  updated_at timestamptz NOT NULL
);
GRANT SELECT ON webhooks.replay TO clinic_query;

-- The list of pending deliveries uses the indexes of 000023.
GRANT SELECT (is_held) ON webhooks.pending_delivery TO clinic_query;
