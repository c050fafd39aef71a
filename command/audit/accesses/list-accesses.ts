import type { EventStoreDBClient } from "@eventstore/db-client";
import { z } from "zod";
import { auditorAggregate } from "../../../shared/domain/audit/auditor.ts";
import type { AuditAccessEvent, AuditAction } from "../../../shared/domain/events/audit.ts";
import { instant, uuid } from "../../../shared/domain/events/fields.ts";
import { createEventLog, type EventLog } from "../../../shared/eventstore/log.ts";
import { readLogEnd } from "../../../shared/eventstore/log-end.ts";
import { loadAggregate } from "../../handling/handle.ts";
import { readAuditorName } from "../access/read-auditor-name.ts";
import type { AuditEvent, LogEvent } from "../log/audit-event.ts";
import { type ScanProgress, scanLog } from "../log/scan.ts";
import { EMPTY_RANGE_ISSUE, isRangeNotEmpty, positionField } from "../queries/query-fields.ts";
import { type AccessRelation, createRelationFinder } from "./access-clinics.ts";

export const accessesQuerySchema = z
  .strictObject({
    clinic: uuid,
    /** Inclusive. */
    from: instant.optional(),
    /** Exclusive. */
    to: instant.optional(),
    /** Log position after which the list starts. */
    after: positionField.optional(),
    limit: z.coerce.number().int().min(1).max(1_000_000).optional(),
  })
  .refine(isRangeNotEmpty, EMPTY_RANGE_ISSUE);
export type AccessesQuery = z.output<typeof accessesQuerySchema>;

/** An access to the records of a clinic. */
export interface ClinicAccess extends Pick<AuditEvent, "position" | "actor"> {
  accessId: string;
  at: string;
  /** Name of the auditor; null for an operator, whose name is in `actor`, or if the name is unavailable. */
  auditorName: string | null;
  action: AuditAction;
  relation: AccessRelation;
  /** The query; null if the access also concerned clinics outside the reader's scope. */
  asked: Record<string, unknown> | null;
  /** Ids in the response, as far as they were recorded. */
  found: string[];
}

export interface AccessReadOptions {
  /** Decrypts personal data, for the names of auditors. */
  personalLog: EventLog;
  client: EventStoreDBClient;
  /** Ids of the clinics in the reader's scope; null for all clinics. */
  permittedClinicIds: readonly string[] | null;
  signal: AbortSignal;
  onProgress?: ((progress: ScanProgress) => void) | undefined;
}

/** Prefix of the streams that record accesses. */
const ACCESS_PREFIXES = ["auditAccess-"];

/**
 * Lists who read or exported the records of a clinic, in log order. Yields nothing for a clinic outside the reader's
 * scope.
 *
 * @throws {LogUnavailableError} if the event log cannot be read
 */
export async function* listAccesses(
  { clinic, from, to, after, limit = Number.POSITIVE_INFINITY }: AccessesQuery,
  { personalLog, client, permittedClinicIds, signal, onProgress }: AccessReadOptions,
): AsyncGenerator<ClinicAccess, void> {
  if (permittedClinicIds && !permittedClinicIds.includes(clinic)) return;
  const endPosition = await readLogEnd(client);
  const findRelation = createRelationFinder(client, clinic);
  // The auditor's scope must be known even if the name cannot be decrypted.
  const log = createEventLog(client);
  const findAuditor = remember(async (id) => (await loadAggregate(log, auditorAggregate, id)).state);
  const findAuditorName = remember((id) => readAuditorName(personalLog, id));
  const scan = scanLog({ client, prefixes: ACCESS_PREFIXES, endPosition, signal, onProgress });
  let remainingCount = limit;
  for await (const { auditEvent, catalogEvent } of scan) {
    if (catalogEvent?.type !== "AuditAccessed") continue;
    const { occurredAt } = catalogEvent.metadata;
    if ((after !== undefined && BigInt(auditEvent.position) <= after) || occurredAt < (from ?? "")) continue;
    if (to !== undefined && occurredAt >= to) continue;
    const { data } = catalogEvent;
    const auditor = data.auditorId === null ? undefined : await findAuditor(data.auditorId);
    const relation = await findRelation(data, auditor);
    if (!relation) continue;
    const isWithinScope =
      !permittedClinicIds || (relation === "certain" && data.clinicIds.every((id) => permittedClinicIds.includes(id)));
    const auditorName = data.auditorId === null ? null : await findAuditorName(data.auditorId);
    yield toClinicAccess(auditEvent, data, { relation, auditorName, isWithinScope, occurredAt });
    remainingCount -= 1;
    if (remainingCount === 0) return;
  }
}

function toClinicAccess(
  { position, actor }: LogEvent["auditEvent"],
  { accessId, action, asked, found }: AuditAccessEvent["data"],
  access: { relation: AccessRelation; auditorName: string | null; isWithinScope: boolean; occurredAt: string },
): ClinicAccess {
  const { relation, auditorName, isWithinScope, occurredAt } = access;
  const details = isWithinScope ? { asked, found } : { asked: null, found: [] };
  return {
    accessId,
    at: occurredAt,
    position,
    actor,
    auditorName,
    action,
    relation,
    ...details,
  };
}

/** Creates a function that remembers the results of another function by id. */
function remember<Result>(find: (id: string) => Promise<Result>): (id: string) => Promise<Result> {
  const promises = new Map<string, Promise<Result>>();
  return (id) => {
    const promise = promises.get(id) ?? find(id);
    promises.set(id, promise);
    return promise;
  };
}
