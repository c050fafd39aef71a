-- Up Migration
-- What side effects have done. Nothing here is rebuilt from events, and no rebuild touches it.
CREATE SCHEMA webhooks;

-- Up to here each event is known to have become delivery rows; NATS between may lose what it holds. One row.
CREATE TABLE webhooks.relay_checkpoint (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  position bigint NOT NULL
);

-- One row for each (event, endpoint); the id is derived from both.
CREATE TABLE webhooks.delivery (
  delivery_id uuid PRIMARY KEY,
  endpoint_id uuid NOT NULL,
  clinic_id uuid NOT NULL,
  branch_id uuid NOT NULL,
  application_id uuid NOT NULL,
  environment text NOT NULL,
  event_id uuid NOT NULL,
  event_type text NOT NULL,            -- appointment.created, appointment.updated
  -- Where the domain event stands in the log; a replay builds the body from there.
  event_stream text NOT NULL,
  event_revision bigint NOT NULL,
  body text NOT NULL,                  -- the JSON that is signed and sent
  status text NOT NULL CHECK (status IN ('pending', 'delivered', 'failed', 'skipped', 'cancelled')),
  attempt_count integer NOT NULL DEFAULT 0,
  -- Attempts of the current round: a replay starts a new one with a fresh schedule.
  round_attempt_count integer NOT NULL DEFAULT 0,
  -- What started the round: the event, or the request to replay. Facts about the round name it as their cause.
  cause_id uuid NOT NULL,
  correlation_id uuid NOT NULL,
  replay_position bigint,              -- of the last request to replay that was followed; older ones are done
  next_attempt_at timestamptz,         -- null unless pending
  lease_expires_at timestamptz,        -- while a dispatcher is at it
  -- A claim is one step along an index: what is leased is not due yet.
  due_at timestamptz GENERATED ALWAYS AS (GREATEST(next_attempt_at, lease_expires_at)) STORED,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
-- By endpoint, so that thousands due at one endpoint do not stand in the way of another's.
CREATE INDEX delivery_first_due ON webhooks.delivery (endpoint_id, due_at)
  WHERE status = 'pending' AND round_attempt_count = 0;
CREATE INDEX delivery_retry_due ON webhooks.delivery (endpoint_id, due_at)
  WHERE status = 'pending' AND round_attempt_count > 0;
CREATE INDEX delivery_of_endpoint ON webhooks.delivery (endpoint_id, created_at DESC, delivery_id);
CREATE INDEX delivery_age ON webhooks.delivery (created_at);

CREATE TABLE webhooks.attempt (
  delivery_id uuid NOT NULL REFERENCES webhooks.delivery ON DELETE CASCADE,
  number integer NOT NULL,             -- from 1, over retries and replays
  started_at timestamptz NOT NULL,
  duration_ms integer,                 -- null: outcome unknown
  status_code integer,                 -- null: no answer came
  error text,                          -- null: an answer came, whole
  answer text,                         -- the first KiB of it
  PRIMARY KEY (delivery_id, number)
);

-- Endpoints that fail, and since when without one success between. A row goes with the next success.
CREATE TABLE webhooks.failing_endpoint (
  endpoint_id uuid PRIMARY KEY,
  since timestamptz NOT NULL
);

-- Facts that the event log is still to be told; written with the rows that they follow from.
CREATE TABLE webhooks.outbox (
  event_id uuid PRIMARY KEY,
  stream text NOT NULL,
  event jsonb NOT NULL,                -- {type, data}
  metadata jsonb NOT NULL,
  created_at timestamptz NOT NULL
);
CREATE INDEX outbox_order ON webhooks.outbox (created_at, event_id);
CREATE INDEX outbox_stream ON webhooks.outbox (stream);

GRANT USAGE ON SCHEMA webhooks TO clinic_query;
GRANT SELECT (delivery_id, endpoint_id, clinic_id, application_id, event_id, event_type, status, attempt_count,
  next_attempt_at, created_at, updated_at) ON webhooks.delivery TO clinic_query;
GRANT SELECT ON webhooks.attempt TO clinic_query;
