-- Up Migration
-- Pace of attempts at endpoints with a rate limit, shared by all processes. If the table is lost, each endpoint only
-- gets one early attempt, so the table needs no WAL. Rows that are not used for an hour are deleted.
CREATE UNLOGGED TABLE webhooks.endpoint_pace (
  endpoint_id uuid PRIMARY KEY,
  -- Time at which the next attempt would start if all attempts were evenly spaced.
  next_start_at timestamptz NOT NULL
) WITH (fillfactor = 50);
