-- Up Migration
-- Status reports of the projection processes, for `clinic projection status`. The table can be emptied at any time,
-- because each process writes its rows every two seconds.
CREATE TABLE projection.process_status (
  role text NOT NULL,
  process text NOT NULL,
  status json NOT NULL,
  at timestamptz NOT NULL,
  PRIMARY KEY (role, process)
);
