import { randomUUID } from "node:crypto";
import {
  type AuditAccessEvent,
  type AuditAction,
  auditAccessCategory,
} from "../../../shared/domain/events/audit.ts";
import { streamName } from "../../../shared/domain/events/category.ts";
import { EMPTY_STREAM, type EventLog } from "../../../shared/eventstore/log.ts";
import { type CommandContext, toMetadata } from "../../handling/handle.ts";

/** An access to record. */
export interface Access {
  /** Null for an operator at the command line. */
  auditorId: string | null;
  action: AuditAction;
  /** The query as given, without undefined members. */
  asked: Record<string, unknown>;
}

/**
 * Records an access before any data is returned. If it cannot be recorded, no data may be returned.
 *
 * @param context the actor, time and request
 * @returns the id of the access
 * @throws {LogUnavailableError}
 */
export async function recordAccess(log: EventLog, access: Access, context: CommandContext): Promise<string> {
  const accessId = randomUUID();
  const asked = Object.fromEntries(Object.entries(access.asked).filter(([, value]) => value !== undefined));
  const event: AuditAccessEvent = { type: "AuditAccessed", data: { accessId, ...access, asked } };
  const stream = streamName(auditAccessCategory, accessId);
  await log.append(stream, EMPTY_STREAM, [{ id: randomUUID(), event, metadata: toMetadata(context) }]);
  return accessId;
}
