-- Up Migration
-- W3C trace context of the step that created the delivery or its replay. Null if tracing was off.
ALTER TABLE webhooks.pending_delivery ADD COLUMN traceparent text;
