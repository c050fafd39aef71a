import { z } from "zod";
import { boundedText, environment, instant, traceparent, uuid } from "./fields.ts";

/**
 * Actor who caused an event: a partner application, a portal user, an operator by name, an auditor, or a component of
 * the service.
 */
export const actor = z.object({
  type: z.enum(["application", "user", "operator", "auditor", "system"]),
  id: boundedText(200),
  /** Value of `--actor`, if the event log authenticated the operator under another name. */
  note: boundedText(200).optional(),
  /** Portal user on whose behalf an operator's system ran the command. */
  onBehalfOf: uuid.optional(),
});
export type Actor = z.infer<typeof actor>;

/** Metadata of every stored event. EventStoreDB defines the names `$correlationId` and `$causationId`. */
export const eventMetadata = z.object({
  $correlationId: uuid,
  $causationId: uuid,
  actor,
  clinicId: uuid.nullable(),
  environment: environment.nullable(),
  schemaVersion: z.int().min(1),
  occurredAt: instant,
  /** HMAC (hex) of a request to the operations API. Distinguishes a retry from another request. */
  requestHash: z.string().length(64).optional(),
  /**
   * Trace context of the append, if the request was traced. An invalid value is ignored, because it must not make the
   * event unreadable.
   */
  traceparent: traceparent.optional().catch(undefined),
});
export type EventMetadata = z.infer<typeof eventMetadata>;

/** Event metadata without the schema version, which is added when the event is stored. */
export type NewEventMetadata = Omit<EventMetadata, "schemaVersion">;
