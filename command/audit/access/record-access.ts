import { randomUUID } from "node:crypto";
import {
  type AuditAccessEvent,
  type AuditAction,
  auditAccessCategory,
} from "../../../shared/domain/events/audit.ts";
import { streamName } from "../../../shared/domain/events/category.ts";
import { EMPTY_STREAM, type EventLog } from "../../../shared/eventstore/log.ts";
import { type CommandContext, toMetadata } from "../../handling/handle.ts";

/** An access that is about to be. */
export interface Access {
  /** Null for an operator at the command line. */
  auditorId: string | null;
  action: AuditAction;
  /** What is asked, as it is asked; undefined members are left out. */
  asked: Record<string, unknown>;
}

/**
 * Records that somebody looks, before anything is answered: where it cannot be recorded, nothing is shown.
 *
 * @param context says who, when, and by which request
 * @returns the access's id
 * @throws {LogUnavailable}
 */
export async function recordAccess(log: EventLog, access: Access, context: CommandContext): Promise<string> {
  const accessId = randomUUID();
  const asked = Object.fromEntries(Object.entries(access.asked).filter(([, value]) => value !== undefined));
  const event: AuditAccessEvent = { type: "AuditAccessed", data: { accessId, ...access, asked } };
  const stream = streamName(auditAccessCategory, accessId);
  await log.append(stream, EMPTY_STREAM, [{ id: randomUUID(), event, metadata: toMetadata(context) }]);
  return accessId;
}
