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
  /** Ids of the records in the response, if they are known when the access is recorded. */
  found?: readonly string[];
  /** Clinics whose records are in the response, if they are known when the access is recorded. */
  clinicIds?: readonly string[];
}

/**
 * Appends an access to the event log. The caller must do this before it returns any data. If the access cannot be
 * recorded, the caller must not return data.
 *
 * @returns id of the access, which is also the id of its event
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
