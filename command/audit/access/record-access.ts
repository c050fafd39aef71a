import { randomUUID } from "node:crypto";
import { type AuditAccessEvent, type AuditAction, auditAccessStreams } from "../../../shared/domain/events/audit.ts";
import { toStreamName } from "../../../shared/domain/events/category.ts";
import { uuid } from "../../../shared/domain/events/fields.ts";
import { EMPTY_STREAM, type EventLog } from "../../../shared/eventstore/log.ts";
import { type CommandContext, toMetadata } from "../../handling/handle.ts";

/** An access by an auditor or operator, to be recorded in the event log. */
export interface Access {
  /** Id of the auditor; null for an operator who uses the command line. */
  auditorId: string | null;
  action: AuditAction;
  /** Parameters of the query as sent by the caller. Undefined parameters are not recorded. */
  query: Record<string, unknown>;
  /** Ids in the response, if the response is known already. */
  found?: readonly string[];
  /** Clinics whose records are in the response, if the response is known already. */
  clinicIds?: readonly string[];
}

/**
 * Appends an access to the event log. Must be called before the query runs. If the access cannot be recorded, no data
 * may be returned.
 *
 * @returns id of the access and of its event
 * @throws {LogUnavailableError} if the access cannot be recorded
 */
export async function recordAccess(log: EventLog, access: Access, context: CommandContext): Promise<string> {
  const accessId = randomUUID();
  const { auditorId, action, query, found = [], clinicIds = [] } = access;
  const queryFields = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined));
  const namedClinicId = uuid.safeParse(query.clinic).data;
  const allClinicIds = [...new Set([...clinicIds, ...(namedClinicId === undefined ? [] : [namedClinicId])])];
  const ids = { found: [...found], clinicIds: allClinicIds };
  const event: AuditAccessEvent = {
    type: "AuditAccessed",
    data: { accessId, auditorId, action, asked: queryFields, ...ids },
  };
  const stream = toStreamName(auditAccessStreams, accessId);
  await log.append(stream, EMPTY_STREAM, [{ id: accessId, event, metadata: toMetadata(context) }]);
  return accessId;
}
