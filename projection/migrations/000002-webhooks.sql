-- Up Migration
-- Webhook state. It is not built from events, and no rebuild changes it.
CREATE SCHEMA webhooks;

-- Position up to which the delivery table has the deliveries of all events. NATS may lose messages after this position.
-- The table has one row.
CREATE TABLE webhooks.relay_checkpoint (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  position bigint NOT NULL
);

-- One row for each pair of event and endpoint. The id is derived from both.
CREATE TABLE webhooks.delivery (
  delivery_id uuid PRIMARY KEY,
  endpoint_id uuid NOT NULL,
  clinic_id uuid NOT NULL,
  branch_id uuid NOT NULL,
  application_id uuid NOT NULL,
  environment text NOT NULL,
  event_id uuid NOT NULL,
  event_type text NOT NULL,            -- appointment.created, appointment.updated
  -- Stream and revision of the domain event in the log. A replay builds the body from this event.
  event_stream text NOT NULL,
  event_revision bigint NOT NULL,
  body text NOT NULL,                  -- the JSON that is signed and sent
  status text NOT NULL CHECK (status IN ('pending', 'delivered', 'failed', 'skipped', 'cancelled')),
  attempt_count integer NOT NULL DEFAULT 0,
  -- Number of attempts in the current round. A replay starts a new round, and the retry schedule restarts.
  round_attempt_count integer NOT NULL DEFAULT 0,
  -- Id of the event that started the round: the domain event, or the request to replay. It becomes the causation id of
  -- events about the round.
  cause_id uuid NOT NULL,
  correlation_id uuid NOT NULL,
  replay_position bigint,              -- log position of the last processed request to replay; older requests are ignored
  next_attempt_at timestamptz,         -- null unless pending
  lease_expires_at timestamptz,        -- set while a process attempts the delivery
  -- Claims use an index on this column. A leased delivery is due only after its lease expires.
  due_at timestamptz GENERATED ALWAYS AS (GREATEST(next_attempt_at, lease_expires_at)) STORED,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
-- The indexes start with the endpoint, so that thousands of due deliveries of one endpoint do not slow down other endpoints.
CREATE INDEX delivery_first_due ON webhooks.delivery (endpoint_id, due_at)
  WHERE status = 'pending' AND round_attempt_count = 0;
CREATE INDEX delivery_retry_due ON webhooks.delivery (endpoint_id, due_at)
  WHERE status = 'pending' AND round_attempt_count > 0;
CREATE INDEX delivery_of_endpoint ON webhooks.delivery (endpoint_id, created_at DESC, delivery_id);
CREATE INDEX delivery_age ON webhooks.delivery (created_at);

CREATE TABLE webhooks.attempt (
  delivery_id uuid NOT NULL REFERENCES webhooks.delivery ON DELETE CASCADE,
  number integer NOT NULL,             -- counts from 1 over all retries and replays
  started_at timestamptz NOT NULL,
  duration_ms integer,                 -- null if the outcome is unknown
  status_code integer,                 -- null if there was no response
  error text,                          -- null if the response arrived completely
  answer text,                         -- the first KiB of the response body
  PRIMARY KEY (delivery_id, number)
);

-- Failing endpoints, with the time of the first failure since the last success. The next success deletes the row.
CREATE TABLE webhooks.failing_endpoint (
  endpoint_id uuid PRIMARY KEY,
  since timestamptz NOT NULL
);

-- Events that wait to be appended to the event log. They are written in one transaction with the deliveries.
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
