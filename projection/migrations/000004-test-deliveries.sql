-- Up Migration
-- A test of an endpoint tells of no branch.
ALTER TABLE webhooks.delivery ALTER COLUMN branch_id DROP NOT NULL;
