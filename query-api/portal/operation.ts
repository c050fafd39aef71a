import { z } from "zod";
import type { Instant } from "../../shared/domain/time/rfc3339.ts";
import { instant } from "../http/fields.ts";
import type { ParameterValues, QueryParameters } from "../http/parameters.ts";
import type { PortalOperationId } from "./authorization.ts";

/** First fields of every portal response. */
export const envelope = {
  ok: z.literal(true),
  apiVersion: z.literal("v1"),
  correlationId: z.uuid().describe("Id of the request."),
};

/** First fields of every portal response except that of `getAvailability`. */
export const datedEnvelope = {
  ...envelope,
  generatedAt: instant.describe("Time at which the response was generated."),
};

export const limitedPage = z.strictObject({
  limit: z.int().min(1).describe("Maximum number of records in this response."),
  returned: z.int().min(0).describe("Number of records in this response. It is not a total count."),
});

/** Declares an operation. Its requirements are in `requirements`, under the same operation id. */
export interface PortalOperation<Declared extends QueryParameters = QueryParameters> {
  operationId: PortalOperationId;
  path: `/api/v1/${string}`;
  summary: string;
  description: string;
  parameters?: Declared;
  /** Body of a 200 response, which starts with `envelope` or `datedEnvelope`. */
  response: z.ZodObject;
  /**
   * SELECT that returns the body without the envelope, as one JSON object. The SELECT can use the row `access` with
   * clinic, branch and membership. $1 is the user, and $2 is the request's time. The results of `getValues` start at
   * $3. The SELECT must restrict every table to `access.clinic_id`. If the SELECT needs time zones that were not passed
   * to `getValues`, it returns a JSON array of these time zones instead.
   */
  sql: string;
  /**
   * Returns the values of the SQL parameters from $3 on.
   *
   * @param now milliseconds since 1970
   * @param timeZones time zones that the SQL may need
   */
  getValues?(parameters: ParameterValues<Declared>, now: number, timeZones: readonly string[]): readonly unknown[];
}

export function defineOperation<const Declared extends QueryParameters>(
  operation: PortalOperation<Declared>,
): PortalOperation<Declared> {
  return operation;
}

/**
 * Inserts the envelope into the text of a JSON object, so that JSON from Postgres need not be parsed and serialized.
 *
 * @param generatedAt undefined if the response does not contain this field
 */
export function wrapInEnvelope(body: string, correlationId: string, generatedAt: Instant | undefined): string {
  const generatedAtMember = generatedAt === undefined ? "" : `"generatedAt":"${generatedAt}",`;
  return `{"ok":true,"apiVersion":"v1","correlationId":"${correlationId}",${generatedAtMember}${body.slice(1)}`;
}

/**
 * Returns an SQL aggregate that builds the objects of a JSON array, without the array's brackets. The result is null if
 * there are no objects. The caller adds the brackets with `concat`, which ignores null. The operator `||` would copy a
 * long list each time.
 *
 * @param membersSql SQL expression for one object's members as text, without braces
 * @param orderSql ORDER BY expression of the array
 */
export function buildJsonElementsSql(membersSql: string, orderSql: string): string {
  return `string_agg('{' || ${membersSql} || '}', ',' ORDER BY ${orderSql})`;
}

/** Returns SQL for a JSON object, or for JSON `null` if the members are null. */
export function buildJsonObjectSql(membersSql: string): string {
  return `coalesce('{' || ${membersSql} || '}', 'null')`;
}
