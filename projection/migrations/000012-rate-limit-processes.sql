-- Up Migration
-- Processes that count requests. If Postgres is unavailable, each process divides a limit by the number of processes.
CREATE UNLOGGED TABLE rate_limit.process (
  id uuid PRIMARY KEY,
  seen_at timestamptz NOT NULL
);

GRANT SELECT, INSERT, UPDATE, DELETE ON rate_limit.process TO clinic_command, clinic_query;
