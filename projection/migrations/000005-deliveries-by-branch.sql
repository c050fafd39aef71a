-- Up Migration
-- A partner sees the deliveries of the branches that its installation reaches.
GRANT SELECT (branch_id) ON webhooks.delivery TO clinic_query;
