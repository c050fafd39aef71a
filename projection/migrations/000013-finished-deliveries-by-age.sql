-- Up Migration
-- Deletes by age free pages anywhere in the table, and new rows fill these pages. A BRIN index then no longer helps to find
-- old rows.
DROP INDEX webhooks.delivery_age;
CREATE INDEX delivery_age ON webhooks.delivery (created_at) WHERE status <> 'pending';
