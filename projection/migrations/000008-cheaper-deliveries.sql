-- Up Migration
-- Most deliveries are inserted, leased and closed within seconds, and each of these writes updates every index of the
-- row. This migration avoids some of these updates.

-- Rows are stored roughly by age, so a BRIN index is sufficient to find old rows.
DROP INDEX webhooks.delivery_age;
CREATE INDEX delivery_age ON webhooks.delivery USING brin (created_at) WITH (pages_per_range = 32);

-- Each page keeps free space for the outcomes of its attempts, so that writing an outcome updates no index.
ALTER TABLE webhooks.attempt SET (fillfactor = 50);

-- Attempts are only inserted by the statement that leases their delivery, so a foreign key check is unnecessary. The
-- trigger deletes attempts together with their delivery.
ALTER TABLE webhooks.attempt DROP CONSTRAINT attempt_delivery_id_fkey;
CREATE FUNCTION webhooks.delete_attempts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM webhooks.attempt a USING gone WHERE a.delivery_id = gone.delivery_id;
  RETURN NULL;
END $$;
CREATE TRIGGER delete_attempts AFTER DELETE ON webhooks.delivery
  REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION webhooks.delete_attempts();

-- Without deduplication, each entry of the due-date indexes can be marked dead separately. A posting list can be skipped
-- only when all its entries are dead, so every claim would scan the entries of all deliveries that were claimed before.
ALTER INDEX webhooks.delivery_first_due SET (deduplicate_items = off);
ALTER INDEX webhooks.delivery_retry_due SET (deduplicate_items = off);
