import { z } from "zod";
import { environment } from "../domain/events/fields.ts";

/** Fields of every webhook body. */
export const webhookEnvelope = {
  id: z.guid().meta({ description: "Id of the event. It is the same for all endpoints that receive the event." }),
  apiVersion: z.literal("v1"),
  createdAt: z.iso.datetime({ precision: 3 }),
  environment,
  clinicId: z.guid(),
};
