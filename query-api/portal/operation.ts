import type { z } from "zod";
import type { Instant } from "../../shared/domain/time/rfc3339.ts";
import type { Parameters, ParameterValues } from "../http/parameters.ts";
import type { PortalOperationId } from "./authorization.ts";

/**
 * Declaration of a portal operation. Router, OpenAPI document and contract tests use it. Its requirements are in
 * `requirements`, under the same id.
 */
export interface PortalOperation<Declared extends Parameters = Parameters> {
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
   * A SELECT that returns the rest of the body as one JSON object. It can read the row `access` (clinic, branch and
   * membership). $1 is the user, $2 the request's time; the operation's own values start at $3. Every table must be
   * limited to `access.clinic_id`.
   */
  data: string;
  /** @param now milliseconds since 1970 */
  values(parameters: ParameterValues<Declared>, now: number): readonly unknown[];
}

/** Declares an operation and infers its parameter types. */
export function defineOperation<const Declared extends Parameters>(
  operation: PortalOperation<Declared>,
): PortalOperation<Declared> {
  return operation;
}

/** An operation with any parameters, as the router and the document use it. */
export type AnyPortalOperation = Omit<PortalOperation, "values"> & {
  values(parameters: Record<string, unknown>, now: number): readonly unknown[];
};

export interface Envelope {
  correlationId: string;
  /** Undefined if the body has no such field. */
  generatedAt: Instant | undefined;
}

/** Inserts the envelope into the text of a JSON object, so that Postgres's output is not parsed again. */
export function withEnvelope({ correlationId, generatedAt }: Envelope, body: string): string {
  const made = generatedAt === undefined ? "" : `"generatedAt":"${generatedAt}",`;
  return `{"ok":true,"apiVersion":"v1","correlationId":"${correlationId}",${made}${body.slice(1)}`;
}
