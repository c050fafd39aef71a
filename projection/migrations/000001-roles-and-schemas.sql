-- Up Migration
-- The services' roles hold privileges and no password; each login user of a service is made a member of one.
-- The set-up may have created them already, and roles are shared by every database of a server.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'clinic_query') THEN CREATE ROLE clinic_query NOLOGIN; END IF;
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'clinic_command') THEN CREATE ROLE clinic_command NOLOGIN; END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; -- another database's migration was first
END $$;

-- A date-time as the service sends it: RFC 3339, UTC, milliseconds, Z.
CREATE FUNCTION rfc3339(timestamptz) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
  RETURN to_char($1 AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
