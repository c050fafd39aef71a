-- Up Migration
-- The services' roles have privileges but no password. The login user of each service is a member of its role.
-- The roles may exist already, because the set-up creates them and all databases of a server share them.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'clinic_query') THEN CREATE ROLE clinic_query NOLOGIN; END IF;
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'clinic_command') THEN CREATE ROLE clinic_command NOLOGIN; END IF;
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'clinic_audit') THEN CREATE ROLE clinic_audit NOLOGIN; END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; -- the migration of another database created the role first
END $$;

CREATE SCHEMA webhooks;
CREATE SCHEMA rate_limit;
CREATE SCHEMA data_keys;
CREATE SCHEMA projection;

GRANT USAGE ON SCHEMA webhooks TO clinic_query, clinic_command, clinic_audit;
GRANT USAGE ON SCHEMA rate_limit TO clinic_query, clinic_command;
GRANT USAGE ON SCHEMA data_keys TO clinic_command, clinic_audit;

-- Formats a date-time as in the service's responses: RFC 3339 in UTC, with milliseconds and Z.
CREATE FUNCTION rfc3339(timestamptz) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
  RETURN to_char($1 AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
