-- Up Migration
-- Counters of the rate limits, shared by all processes of both APIs. A crash loses at most the counts of one minute.
CREATE SCHEMA rate_limit;

CREATE UNLOGGED TABLE rate_limit.counter (
  key varchar(255) PRIMARY KEY,
  points integer NOT NULL DEFAULT 0,
  expire bigint
);
CREATE INDEX counter_expiry ON rate_limit.counter (expire);

GRANT USAGE ON SCHEMA rate_limit TO clinic_command, clinic_query;
GRANT SELECT, INSERT, UPDATE, DELETE ON rate_limit.counter TO clinic_command, clinic_query;
