import type Koa from "koa";
import type { z } from "zod";
import type { AuditAction } from "../../../shared/domain/events/audit.ts";
import { describeIssue } from "../../../shared/domain/validation/describe-issue.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import { recordAccess } from "../access/record-access.ts";
import type { AuditorState } from "./auditor-access.ts";

export type AuditContext = Koa.ParameterizedContext<AuditorState>;

/**
 * Reads the query of a request.
 *
 * @throws {ApiError} 400 `invalid_query` with details
 */
export function readQuery<Schema extends z.ZodType>(
  query: AuditContext["query"],
  schema: Schema,
): z.output<Schema> {
  const repeated = Object.keys(query).filter((name) => Array.isArray(query[name]));
  const checked = schema.safeParse(query);
  if (checked.success && repeated.length === 0) return checked.data;
  const issues = checked.error?.issues ?? [];
  const details = [
    ...repeated.map((path) => ({ path, message: "must be given once" })),
    ...issues.map((issue) => ({ path: issue.path.join(".") || "query", message: describeIssue(issue) })),
  ];
  throw new ApiError(400, "invalid_query", { details });
}

/**
 * Records the auditor's access.
 *
 * @returns the id of the access
 * @throws {LogUnavailableError} if the access cannot be recorded; no data may be returned
 */
export function recordRequestAccess(
  log: EventLog,
  ctx: AuditContext,
  action: AuditAction,
  asked: Record<string, unknown> = { ...ctx.query },
): Promise<string> {
  const { auditor, correlationId, now } = ctx.state;
  return recordAccess(
    log,
    { auditorId: auditor.id, action, asked },
    {
      actor: { type: "auditor", id: auditor.id },
      clinicId: null,
      environment: null,
      correlationId,
      causationId: correlationId,
      now,
    },
  );
}
