import type { z } from "zod";
import type { Instant } from "../../shared/domain/time/rfc3339.ts";
import type { Parameters, ParameterValues } from "../http/parameters.ts";
import type { PortalOperationId } from "./authorization.ts";

/**
 * An operation of the portal API, declared once: the router, the document and the contract tests follow from it.
 * What it asks of the caller stands in `requirements`, under its id.
 */
export interface PortalOperation<Declared extends Parameters = Parameters> {
  operationId: PortalOperationId;
  method: "GET";
  path: `/api/v1/${string}`;
  summary: string;
  description: string;
  parameters: Declared;
  /** The whole body of a 200, envelope and all. */
  response: z.ZodType;
  /** Whether the envelope says when the answer was made. */
  generatedAt: boolean;
  /**
   * A SELECT that gives the rest of the body as one JSON object. It reads the row `access` (the clinic, the branch,
   * the member); $1 is the user, $2 the time of the request, and the operation's own values start at $3. Every table
   * in it is bounded by `access.clinic_id`.
   */
  data: string;
  /** @param now milliseconds since 1970 */
  values(parameters: ParameterValues<Declared>, now: number): readonly unknown[];
}

/** Declares an operation with the types of its parameters inferred. */
export function defineOperation<const Declared extends Parameters>(
  operation: PortalOperation<Declared>,
): PortalOperation<Declared> {
  return operation;
}

/** An operation as the router and the document handle it, whatever its parameters are. */
export type AnyPortalOperation = Omit<PortalOperation, "values"> & {
  values(parameters: Record<string, unknown>, now: number): readonly unknown[];
};

export interface Envelope {
  correlationId: string;
  /** Undefined where the body does not say when it was made. */
  generatedAt: Instant | undefined;
}

/** Puts the envelope before the members of a body's JSON object, as text: what Postgres built is not parsed again. */
export function withEnvelope({ correlationId, generatedAt }: Envelope, body: string): string {
  const made = generatedAt === undefined ? "" : `"generatedAt":"${generatedAt}",`;
  return `{"ok":true,"apiVersion":"v1","correlationId":"${correlationId}",${made}${body.slice(1)}`;
}
