-- Up Migration
-- Index of the event log for auditors. The audit service fills it from the log, and answers from the log: the rows only
-- say where to read. The index contains no personal data, and can be rebuilt from the log at any time.
CREATE SCHEMA audit;

-- One row for each event that is not the log's own, also for events that no release can read. Ids are keys: a UUID is
-- its own key, and the key of any other text is derived from its hash.
CREATE TABLE audit.event (
  position bigint PRIMARY KEY,
  revision bigint NOT NULL,
  leaf_number bigint,                  -- number of the leaf in the audit tree, from 0; null if the event is not a leaf
  event_id uuid NOT NULL,
  correlation_id uuid,
  causation_id uuid,
  leaf_hash bytea,                     -- null if the event is not a leaf
  stream text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL,
  actor text COLLATE "C",              -- type and id, such as operator:ada
  occurred_at text COLLATE "C",        -- as in the event; text, because it need not be a time
  stored_at text COLLATE "C" NOT NULL,
  clinics uuid[] NOT NULL,             -- clinics that the event names
  subjects uuid[] NOT NULL,            -- ids in the data, and subjects inherited from other events
  origins uuid[] NOT NULL              -- request and actor, which only consequences inherit
);
CREATE INDEX ON audit.event (event_id);
CREATE UNIQUE INDEX ON audit.event (leaf_number) WHERE leaf_number IS NOT NULL;
CREATE INDEX ON audit.event (position) WHERE type = 'AuditorRegistered';

-- The events of each subject, clinic, request and actor, and the accesses to each subject.
CREATE TABLE audit.subject (
  subject uuid NOT NULL,
  position bigint NOT NULL,
  PRIMARY KEY (subject, position)
);

-- The first event of each stream, and of each object whose later events need not name its subjects.
CREATE TABLE audit.first_event (
  key uuid PRIMARY KEY,
  position bigint NOT NULL
);
CREATE INDEX ON audit.first_event (position);

-- Nodes of the audit tree: the hashes of complete subtrees with 16^level leaves.
CREATE TABLE audit.node (
  level smallint NOT NULL,
  number bigint NOT NULL,
  hash bytea NOT NULL,
  PRIMARY KEY (level, number)
);

-- Position of the last event that the index covers, also if that event is the log's own. The last leaf identifies the
-- log, because other events can be scavenged.
CREATE TABLE audit.checkpoint (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  position bigint NOT NULL,
  leaf_count bigint NOT NULL,
  leaf_position bigint,
  leaf_event_id uuid,
  -- Up to here, the rows were derived from the log a second time and compared.
  compared_position bigint NOT NULL DEFAULT -1,
  compared_leaf_count bigint NOT NULL DEFAULT 0,
  verified_at timestamptz              -- time of the last comparison of the whole index
);
INSERT INTO audit.checkpoint (position, leaf_count) VALUES (-1, 0);

-- Empties the index, so that the audit service fills it again from the start of the log.
CREATE PROCEDURE audit.reset_index() LANGUAGE sql AS $$
  TRUNCATE audit.event, audit.subject, audit.first_event, audit.node;
  UPDATE audit.checkpoint
     SET position = -1, leaf_count = 0, leaf_position = NULL, leaf_event_id = NULL,
         compared_position = -1, compared_leaf_count = 0, verified_at = NULL;
$$;

GRANT USAGE ON SCHEMA audit TO clinic_audit;
GRANT SELECT, INSERT ON audit.event, audit.subject, audit.first_event, audit.node TO clinic_audit;
GRANT SELECT, UPDATE ON audit.checkpoint TO clinic_audit;
