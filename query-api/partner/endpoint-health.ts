import { z } from "zod";
import { instant } from "../http/fields.ts";

/** Fields of an endpoint that describe its recent attempts. Only reads return them. */
export const endpointHealthFields = {
  failingSince: instant
    .nullable()
    .describe(
      "Time of the first failed attempt since the last success. Null if the latest attempt succeeded, if there was no attempt, or if the endpoint is not active.",
    ),
  failedAttempts: z.int().min(0).describe("Number of failed attempts since `failingSince`; 0 if it is null."),
};

/** SQL arguments of `json_build_object` for the health of an endpoint, from the join of {@link ENDPOINT_HEALTH_JOIN_SQL}. */
export const ENDPOINT_HEALTH_SQL = `'failingSince', rfc3339(f.since), 'failedAttempts', coalesce(f.failures, 0)`;

/** SQL that joins the failure period of an active endpoint `e` as `f`. */
export const ENDPOINT_HEALTH_JOIN_SQL =
  "LEFT JOIN webhooks.failing_endpoint f ON f.endpoint_id = e.endpoint_id AND e.status = 'active'";
