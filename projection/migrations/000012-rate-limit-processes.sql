-- Up Migration
-- The processes that count requests. Each one knows from here by how many to divide a limit if Postgres goes away.
CREATE UNLOGGED TABLE rate_limit.process (
  id uuid PRIMARY KEY,
  seen_at timestamptz NOT NULL
);

GRANT SELECT, INSERT, UPDATE, DELETE ON rate_limit.process TO clinic_command, clinic_query;
