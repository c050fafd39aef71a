import type Koa from "koa";
import type { z } from "zod";
import type { AuditAction } from "../../../shared/domain/events/audit.ts";
import { describeIssue } from "../../../shared/domain/validation/describe-issue.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import { type Access, recordAccess } from "../access/record-access.ts";
import type { AuditorState } from "./auditor-access.ts";

export type AuditContext = Koa.ParameterizedContext<AuditorState>;
export type AuditHandler = (ctx: AuditContext) => Promise<void>;

/**
 * Validates the parameters of a request, which are in the query or in a JSON body.
 *
 * @param problems problems of other parameters
 * @throws {ApiError} 400 `invalid_query`, with details that name the invalid parameters
 */
export function readQuery<Schema extends z.ZodType>(
  query: unknown,
  schema: Schema,
  problems: readonly { path: string; message: string }[] = [],
): z.output<Schema> {
  const repeatedNames = Object.entries(query ?? {}).flatMap(([name, value]) => (Array.isArray(value) ? [name] : []));
  const parseResult = schema.safeParse(query);
  if (parseResult.success && repeatedNames.length === 0 && problems.length === 0) return parseResult.data;
  const issues = parseResult.error?.issues ?? [];
  const details = [
    ...problems,
    ...repeatedNames.map((path) => ({ path, message: "must be given once" })),
    ...issues.map((issue) => ({ path: issue.path.join(".") || "query", message: describeIssue(issue) })),
  ];
  throw new ApiError(400, "invalid_query", { details });
}

type FoundRecords = Pick<Access, "found" | "clinicIds">;

/**
 * Records the access of the auditor who sends the request. Must be called before any data is returned.
 *
 * @param query the parameters to record; default: all parameters of the request
 * @throws {LogUnavailableError} if the access cannot be recorded; no data may then be returned
 */
export function recordRequestAccess(
  log: EventLog,
  ctx: AuditContext,
  action: AuditAction,
  query: Record<string, unknown> = { ...ctx.query },
  foundRecords: FoundRecords = {},
): Promise<string> {
  const { auditor, correlationId, now, traceparent } = ctx.state;
  const actor = { type: "auditor", id: auditor.id } as const;
  const requestFields = { correlationId, causationId: correlationId, now, traceparent };
  const context = { actor, clinicId: null, environment: null, ...requestFields };
  return recordAccess(log, { auditorId: auditor.id, action, query, ...foundRecords }, context);
}
