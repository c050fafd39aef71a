-- Up Migration
-- Time of the last success of each task that must run every day. An alert depends on its age. The alert also fires if a
-- task has not succeeded since the set-up.
CREATE TABLE projection.task_success (
  task text PRIMARY KEY,
  succeeded_at timestamptz NOT NULL
);
INSERT INTO projection.task_success VALUES ('backup', now()), ('retention', now());
