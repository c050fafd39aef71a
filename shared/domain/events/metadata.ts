import { z } from "zod";
import { environment, instant, uuid, word } from "./fields.ts";

/** Who did it: a partner's application, a portal user, an operator by name, an auditor, or the service itself by part. */
export const actor = z.object({
  type: z.enum(["application", "user", "operator", "auditor", "system"]),
  id: word(200),
});
export type Actor = z.infer<typeof actor>;

/** What every stored event says about itself. `$correlationId` and `$causationId` are EventStoreDB's own names. */
export const eventMetadata = z.object({
  $correlationId: uuid,
  $causationId: uuid,
  actor,
  clinicId: uuid.nullable(),
  environment: environment.nullable(),
  schemaVersion: z.int().min(1),
  occurredAt: instant,
});
export type EventMetadata = z.infer<typeof eventMetadata>;

/** What a writer says; the version of the schema is the log's to add. */
export type NewEventMetadata = Omit<EventMetadata, "schemaVersion">;
