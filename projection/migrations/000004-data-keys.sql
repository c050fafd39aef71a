-- Up Migration
-- Data keys encrypt the personal data in the event log. Each key is wrapped by a master key of PERSONAL_DATA_KEYS. A
-- destroyed key leaves a row without the key, as evidence of the erasure.
CREATE TABLE data_keys.data_key (
  id uuid PRIMARY KEY,
  person_type text NOT NULL,
  person_id uuid NOT NULL,
  category text NOT NULL,
  wrapped_key bytea,
  master_key_id text,
  created_at timestamptz NOT NULL DEFAULT now(),
  destroyed_at timestamptz,
  CHECK ((destroyed_at IS NULL) = (wrapped_key IS NOT NULL)),
  CHECK ((destroyed_at IS NULL) = (master_key_id IS NOT NULL))
);

-- A person has one key for each category. After an erasure, new data gets a new key.
CREATE UNIQUE INDEX data_key_of_person ON data_keys.data_key (person_type, person_id, category)
  WHERE destroyed_at IS NULL;
CREATE INDEX destroyed_data_key_of_person ON data_keys.data_key (person_type, person_id) WHERE destroyed_at IS NOT NULL;

GRANT SELECT, INSERT, UPDATE ON data_keys.data_key TO clinic_command;
GRANT SELECT ON data_keys.data_key TO clinic_audit;
