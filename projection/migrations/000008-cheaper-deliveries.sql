-- Up Migration
-- A delivery is inserted, leased and closed within a moment, and each of the three writes every index of its row anew.

-- Rows come nearly in the order of their age, so that ranges of pages tell enough to find the old ones.
DROP INDEX webhooks.delivery_age;
CREATE INDEX delivery_age ON webhooks.delivery USING brin (created_at) WITH (pages_per_range = 32);

-- Room in the page for the outcome of each attempt, so that writing it touches no index.
ALTER TABLE webhooks.attempt SET (fillfactor = 50);

-- An attempt is only ever made in the statement that leases its delivery, so that there is nothing to look up for each;
-- it still goes with its delivery.
ALTER TABLE webhooks.attempt DROP CONSTRAINT attempt_delivery_id_fkey;
CREATE FUNCTION webhooks.delete_attempts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM webhooks.attempt a USING gone WHERE a.delivery_id = gone.delivery_id;
  RETURN NULL;
END $$;
CREATE TRIGGER delete_attempts AFTER DELETE ON webhooks.delivery
  REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION webhooks.delete_attempts();

-- Entries of one moment each by itself: folded into one they count as dead only together, and every claim would step
-- over those of all deliveries that were claimed before.
ALTER INDEX webhooks.delivery_first_due SET (deduplicate_items = off);
ALTER INDEX webhooks.delivery_retry_due SET (deduplicate_items = off);
