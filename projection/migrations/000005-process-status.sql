-- Up Migration
-- Status reports of the projection processes, for `clinic projection status`. The table can be emptied at any time,
-- because each process writes its rows every two seconds.
CREATE TABLE projection.process_status (
  role text NOT NULL,
  process text NOT NULL,
  state text NOT NULL,                 -- starting, running, standby, failed, stopped
  detail text,
  position bigint,
  events_per_second double precision,
  last_error text,
  last_error_at timestamptz,
  -- The event at which the role stopped.
  failed_position bigint,
  failed_stream text,
  failed_revision bigint,
  failed_type text,
  at timestamptz NOT NULL,
  PRIMARY KEY (role, process)
);
