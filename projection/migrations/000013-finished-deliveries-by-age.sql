-- Up Migration
-- When old deliveries are deleted, new rows fill the free space anywhere in the table. Rows are then no longer stored
-- by age, so a BRIN index does not help to find old rows.
DROP INDEX webhooks.delivery_age;
CREATE INDEX delivery_age ON webhooks.delivery (created_at) WHERE status <> 'pending';
