-- Up Migration
-- What the processes of the projection service say of themselves, for `npm run projection -- status`. Losing it costs
-- nothing: each process writes its rows anew within seconds.
CREATE SCHEMA projection;

CREATE TABLE projection.process_status (
  role text NOT NULL,
  process text NOT NULL,
  state text NOT NULL,                 -- starting, running, standby, failed, stopped
  detail text,
  position bigint,
  events_per_second double precision,
  unknown_events bigint NOT NULL,
  last_error text,
  last_error_at timestamptz,
  -- The event that it cannot get past.
  failed_position bigint,
  failed_stream text,
  failed_revision bigint,
  failed_type text,
  at timestamptz NOT NULL,
  PRIMARY KEY (role, process)
);
