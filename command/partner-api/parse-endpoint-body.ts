import type { z } from "zod";
import { ApiError } from "../../shared/http/api-error.ts";
import { toErrorDetails } from "./errors.ts";

/**
 * Parses the body of a request that registers or changes an endpoint.
 *
 * @throws {ApiError} 400 `invalid_destination` if only the URL is invalid, otherwise 400 `validation_failed`
 */
export function parseEndpointBody<Body>(schema: z.ZodType<Body>, body: unknown): Body {
  const parseResult = schema.safeParse(body);
  if (parseResult.success) return parseResult.data;
  const details = toErrorDetails(parseResult.error);
  const code = details.every(({ path }) => path === "url") ? "invalid_destination" : "validation_failed";
  throw new ApiError(400, code, { details });
}
