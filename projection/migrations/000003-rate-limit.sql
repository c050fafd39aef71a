-- Up Migration
-- Counters of the rate limits, shared by all processes of both APIs. A crash loses at most the counts of one minute.
CREATE UNLOGGED TABLE rate_limit.counter (
  key varchar(255) PRIMARY KEY,
  points integer NOT NULL DEFAULT 0,
  expire bigint
);
CREATE INDEX counter_expiry ON rate_limit.counter (expire);

-- Processes that count requests. If Postgres is unavailable, each process divides a limit by the number of processes.
CREATE UNLOGGED TABLE rate_limit.process (
  id uuid PRIMARY KEY,
  seen_at timestamptz NOT NULL
);

GRANT SELECT, INSERT, UPDATE, DELETE ON rate_limit.counter, rate_limit.process TO clinic_command, clinic_query;
