-- Up Migration
-- Test deliveries have no branch.
ALTER TABLE webhooks.delivery ALTER COLUMN branch_id DROP NOT NULL;
