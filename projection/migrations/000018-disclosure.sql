-- Up Migration
-- A disclosure lists the webhook deliveries about a customer's appointments.
GRANT USAGE ON SCHEMA webhooks TO clinic_command;
GRANT SELECT (delivery_id, endpoint_id, clinic_id, application_id, event_type, event_stream, status, created_at)
  ON webhooks.delivery TO clinic_command;
GRANT SELECT (delivery_id, number, started_at, status_code) ON webhooks.attempt TO clinic_command;
