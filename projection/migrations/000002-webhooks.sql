-- Up Migration
-- Webhook state. It is not built from events, and no rebuild changes it.

-- Positions in the log up to which all public events have deliveries (`deliveries`) and messages in NATS (`messages`).
CREATE TABLE webhooks.checkpoint (
  name text PRIMARY KEY CHECK (name IN ('deliveries', 'messages')),
  position bigint NOT NULL,
  event_id uuid,                       -- id of the event at this position; null before the first event
  read_models text NOT NULL,           -- schema of the read models that contained the public events
  sequence bigint NOT NULL DEFAULT 0   -- sequence number that NATS confirmed last; 0 for deliveries
);

-- Public events that the read models contain only after a checkpoint has passed them, for example because their stream
-- was quarantined, and public events that could not be processed. A row is deleted when the event has both.
CREATE TABLE webhooks.late_event (
  event_id uuid PRIMARY KEY,
  position bigint NOT NULL,
  needs_deliveries boolean NOT NULL,
  needs_message boolean NOT NULL,
  cause text,                          -- error message; null if the event only came late
  since timestamptz NOT NULL DEFAULT now(),
  next_try_at timestamptz NOT NULL DEFAULT '-infinity'
);
CREATE INDEX late_event_position ON webhooks.late_event (position);

-- Position of the last event in the log that may revoke access. Nothing is sent until the read models include it.
CREATE TABLE webhooks.revocation (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  position bigint NOT NULL
);

-- Derives the id of a delivery, like `deriveWebhookDeliveryId`.
CREATE FUNCTION webhooks.delivery_id(event_id uuid, endpoint_id uuid) RETURNS uuid
  LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  AS $$ SELECT encode(set_byte(set_byte(hash, 6, get_byte(hash, 6) & 15 | 128), 8, get_byte(hash, 8) & 63 | 128), 'hex')::uuid
    FROM (SELECT substr(sha256(uuid_send(event_id) || uuid_send(endpoint_id)), 1, 16)) AS h (hash) $$;

-- One row for each pair of event and endpoint. The id is derived from both. The fill factor leaves space for the new
-- version of a row on the same page.
CREATE TABLE webhooks.delivery (
  delivery_id uuid PRIMARY KEY,
  endpoint_id uuid NOT NULL,
  clinic_id uuid,                      -- clinic of the endpoint; null if the endpoint belongs to the application
  branch_id uuid,                      -- null if the event is not about an appointment
  animal_id uuid,                      -- animal of the appointment; null if there is none
  application_id uuid NOT NULL,
  environment text NOT NULL,
  event_id uuid NOT NULL,
  event_type text NOT NULL,            -- appointment.created, installation.revoked, ...
  event_position bigint NOT NULL,      -- position of the domain event in the log
  appointment_id uuid,                 -- null if the event is not about an appointment
  status text NOT NULL CHECK (status IN ('pending', 'delivered', 'failed', 'skipped', 'cancelled')),
  attempt_count integer NOT NULL DEFAULT 0,
  -- Id of the domain event, or of the last request to replay. It becomes the causation id of events about the endpoint.
  cause_id uuid NOT NULL,
  correlation_id uuid NOT NULL,
  replay_position bigint,              -- log position of the last processed request to replay; older requests are ignored
  next_attempt_at timestamptz,         -- null unless pending
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  -- `none` for pending and delivered deliveries, so that the value does not change when a delivery succeeds.
  unsuccessful_status text NOT NULL
    GENERATED ALWAYS AS (CASE WHEN status IN ('failed', 'skipped', 'cancelled') THEN status ELSE 'none' END) STORED
) WITH (fillfactor = 55);

-- No index depends on a column that changes when a delivery succeeds, so that such an update changes no index.
CREATE INDEX delivery_age ON webhooks.delivery (created_at);
CREATE INDEX delivery_failed ON webhooks.delivery (delivery_id) WHERE unsuccessful_status = 'failed';
CREATE INDEX delivery_of_appointment ON webhooks.delivery (appointment_id) WHERE appointment_id IS NOT NULL;
-- One index for all lists. A list reads the newest entries of each requested status and type, and merges them. With the
-- column `created_at` itself, Postgres would choose the index `delivery_age`, and read deliveries of all endpoints.
CREATE INDEX delivery_of_endpoint ON webhooks.delivery
  (endpoint_id, unsuccessful_status, event_type, (created_at AT TIME ZONE 'UTC') DESC, delivery_id);
-- Finds the deliveries of branches that have few of an endpoint's deliveries. Most entries are equal, so it stays small.
CREATE INDEX delivery_of_branch ON webhooks.delivery (endpoint_id, branch_id);

-- Processes that send deliveries. Each holds an advisory lock while it is connected. Other processes delete the row of a
-- process that has lost its lock.
CREATE TABLE webhooks.sender (
  sender_id uuid PRIMARY KEY
);

-- One row for each delivery with the status `pending`. The row is deleted in the transaction that ends the delivery.
-- Leases and retries are in this small table, so that their updates copy no rows of `delivery`.
CREATE TABLE webhooks.pending_delivery (
  delivery_id uuid PRIMARY KEY,
  endpoint_id uuid NOT NULL,
  branch_id uuid,
  animal_id uuid,
  event_id uuid NOT NULL,              -- public event in the read models, which contains the data of the body
  event_position bigint NOT NULL,
  next_attempt_at timestamptz NOT NULL,
  -- Number of failed attempts since the delivery was created or last replayed, which is the position in the retry
  -- schedule. Attempts with an unknown outcome do not count.
  failed_attempt_count integer NOT NULL,
  attempt_count integer NOT NULL,      -- number of all attempts, including attempts in progress
  -- Set while a process attempts the delivery. Not indexed, so that a claim changes no index. The rows of an endpoint
  -- that are due but leased are few, because slots limit them.
  lease_expires_at timestamptz,
  -- Process that holds the lease. The lease ends early if the process is no longer in the table `sender`.
  sender_id uuid,
  -- W3C trace context of the step that created the delivery or its replay; null if tracing was off.
  traceparent text,
  -- Appointment whose events are sent in order; null if the endpoint did not ask for it.
  ordering_key uuid,
  -- True until no earlier delivery of the same endpoint and appointment is pending.
  is_blocked boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50);

-- The indexes start with the endpoint, so that thousands of due deliveries of one endpoint do not slow down other
-- endpoints. Without deduplication, each entry can be marked dead separately. A posting list can be skipped only when
-- all its entries are dead, so every claim would scan the entries of all deliveries that were claimed before.
CREATE INDEX pending_delivery_due ON webhooks.pending_delivery (endpoint_id, next_attempt_at)
  WITH (deduplicate_items = off) WHERE NOT is_blocked;
-- Finds deliveries of branches that an application may no longer access.
CREATE INDEX pending_delivery_branch ON webhooks.pending_delivery (endpoint_id, branch_id);
-- Finds deliveries about animals that an application may no longer see.
CREATE INDEX pending_delivery_animal ON webhooks.pending_delivery (endpoint_id, animal_id);
-- Prevents two deliveries of one endpoint and appointment from being sent at the same time.
CREATE UNIQUE INDEX pending_delivery_head ON webhooks.pending_delivery (endpoint_id, ordering_key)
  WHERE ordering_key IS NOT NULL AND NOT is_blocked;
CREATE INDEX pending_delivery_blocked ON webhooks.pending_delivery (endpoint_id, ordering_key, event_position)
  WHERE is_blocked;

-- Each page keeps free space for the outcomes of its attempts, so that writing an outcome updates no index.
CREATE TABLE webhooks.attempt (
  delivery_id uuid NOT NULL,
  number integer NOT NULL,             -- counts from 1 over all retries and replays
  started_at timestamptz NOT NULL,
  duration_ms integer,                 -- null if the outcome is unknown
  status_code integer,                 -- null if there was no response
  error text,                          -- null if the response arrived completely
  answer text,                         -- the first KiB of the response body
  PRIMARY KEY (delivery_id, number)
) WITH (fillfactor = 50);

-- Attempts are only inserted by the statement that leases their delivery, so a foreign key check is unnecessary. The
-- trigger deletes attempts together with their delivery.
CREATE FUNCTION webhooks.delete_attempts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM webhooks.attempt a USING gone WHERE a.delivery_id = gone.delivery_id;
  RETURN NULL;
END $$;
CREATE TRIGGER delete_attempts AFTER DELETE ON webhooks.delivery
  REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION webhooks.delete_attempts();

-- Failure periods of endpoints: from the first failure since the last success, unless the row disables the endpoint. The
-- events of the endpoint are recorded in the log later.
CREATE TABLE webhooks.failing_endpoint (
  endpoint_id uuid PRIMARY KEY,
  since timestamptz NOT NULL,
  failures integer NOT NULL,           -- number of failed attempts
  last_failed_at timestamptz NOT NULL,
  is_gone boolean NOT NULL,            -- the receiver has returned 410
  is_disabled boolean NOT NULL
    GENERATED ALWAYS AS (is_gone OR (last_failed_at - since > interval '5 days' AND failures >= 10)) STORED,
  -- Causation and correlation id of a delivery that failed last.
  cause_id uuid NOT NULL,
  correlation_id uuid NOT NULL,
  -- Time of the failure in the last recorded `WebhookEndpointFailureReported` event; null if there was none.
  reported_at timestamptz,
  -- If an event cannot be recorded, because of its stream, it is tried again at this time.
  next_try_at timestamptz NOT NULL DEFAULT '-infinity'
);

-- State of the rate limits of endpoints, shared by all processes. If the table is lost, each endpoint only gets one early
-- attempt, so the table needs no WAL.
CREATE UNLOGGED TABLE webhooks.endpoint_rate_limit (
  endpoint_id uuid PRIMARY KEY,
  -- Time at which the next attempt would start if all attempts were evenly spaced.
  next_start_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Progress of replays of several deliveries. A row is inserted when the first batch is processed.
CREATE TABLE webhooks.replay (
  replay_id uuid PRIMARY KEY,
  next_created_at timestamptz,         -- earliest time of creation of the remaining deliveries; null before the first batch
  replayed_count integer NOT NULL DEFAULT 0,
  not_replayed_count integer NOT NULL DEFAULT 0,
  outcome text,                        -- completed or stopped; null until the replay has ended
  updated_at timestamptz NOT NULL,
  -- After the replay has ended, time of the next try to record that in the log; null once it is recorded.
  next_try_at timestamptz DEFAULT '-infinity'
);
CREATE INDEX replay_unrecorded ON webhooks.replay (next_try_at) WHERE outcome IS NOT NULL AND next_try_at IS NOT NULL;

-- Partners see the deliveries of the branches and animals in their installation, the progress of their replays, and whether their
-- endpoints are failing.
GRANT SELECT (delivery_id, endpoint_id, clinic_id, branch_id, animal_id, application_id, event_id, event_type,
  appointment_id, status, unsuccessful_status, attempt_count, next_attempt_at, created_at, updated_at)
  ON webhooks.delivery TO clinic_query;
GRANT SELECT (delivery_id, endpoint_id, is_blocked) ON webhooks.pending_delivery TO clinic_query;
GRANT SELECT (endpoint_id, since, failures) ON webhooks.failing_endpoint TO clinic_query;
GRANT SELECT ON webhooks.attempt, webhooks.replay TO clinic_query;

-- Auditors see deliveries and attempts, but not the body, because the events contain the same data.
GRANT SELECT (delivery_id, endpoint_id, clinic_id, application_id, event_id, event_type, event_position, appointment_id,
  status, correlation_id, next_attempt_at, created_at, updated_at) ON webhooks.delivery TO clinic_audit;
GRANT SELECT ON webhooks.attempt TO clinic_audit;

-- A disclosure lists the webhook deliveries about a customer's appointments. A replay of one delivery depends on its
-- status, and on the branch and animal that its application may see.
GRANT SELECT (delivery_id, endpoint_id, clinic_id, branch_id, animal_id, application_id, environment, event_type,
  appointment_id, status, replay_position, created_at) ON webhooks.delivery TO clinic_command;
GRANT SELECT (delivery_id, number, started_at, status_code) ON webhooks.attempt TO clinic_command;

-- A command that enables an endpoint first records that its failures have disabled it.
GRANT SELECT (endpoint_id, since, failures, last_failed_at, is_gone, is_disabled, cause_id, correlation_id)
  ON webhooks.failing_endpoint TO clinic_command;
