-- Up Migration
-- Partners see only the deliveries of the branches in their installation.
GRANT SELECT (branch_id) ON webhooks.delivery TO clinic_query;
