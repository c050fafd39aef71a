import type { z } from "zod";
import type { Instant } from "../../shared/domain/time/rfc3339.ts";
import type { ParameterValues, QueryParameters } from "../http/parameters.ts";
import type { PortalOperationId } from "./authorization.ts";

/**
 * Declaration of a portal operation, for the router, the OpenAPI document and the contract tests. Its requirements are in
 * `requirements`, under the same operation id.
 */
export interface PortalOperation<Declared extends QueryParameters = QueryParameters> {
  operationId: PortalOperationId;
  method: "GET";
  path: `/api/v1/${string}`;
  summary: string;
  description: string;
  parameters: Declared;
  /** Schema of the 200 body, envelope included. */
  response: z.ZodType;
  /** If true, the envelope has `generatedAt`. */
  generatedAt: boolean;
  /**
   * SELECT that returns the body without the envelope, as one JSON object. It can use the row `access` with clinic,
   * branch and membership. $1 is the user, $2 the request's time. The results of `values` start at $3. The SELECT must
   * limit every table to `access.clinic_id`.
   */
  sql: string;
  /** @param now milliseconds since 1970 */
  values(parameters: ParameterValues<Declared>, now: number): readonly unknown[];
}

/** Declares an operation and infers its parameter types. */
export function defineOperation<const Declared extends QueryParameters>(
  operation: PortalOperation<Declared>,
): PortalOperation<Declared> {
  return operation;
}

/** A portal operation with any parameters. The router and the OpenAPI document use this type. */
export type AnyPortalOperation = Omit<PortalOperation, "values"> & {
  values(parameters: Record<string, unknown>, now: number): readonly unknown[];
};

export interface Envelope {
  correlationId: string;
  /** Undefined if the response does not contain this field. */
  generatedAt: Instant | undefined;
}

/** Inserts the envelope into the text of a JSON object, so that Postgres's JSON is not parsed and serialized again. */
export function addEnvelope({ correlationId, generatedAt }: Envelope, body: string): string {
  const made = generatedAt === undefined ? "" : `"generatedAt":"${generatedAt}",`;
  return `{"ok":true,"apiVersion":"v1","correlationId":"${correlationId}",${made}${body.slice(1)}`;
}
