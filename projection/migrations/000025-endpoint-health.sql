-- Up Migration
-- Partners see whether their endpoints are failing.
GRANT SELECT (endpoint_id, since, failures) ON webhooks.failing_endpoint TO clinic_query;
