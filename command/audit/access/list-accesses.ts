import type { EventStoreDBClient } from "@eventstore/db-client";
import { z } from "zod";
import { auditorAggregate } from "../../../shared/domain/audit/auditor.ts";
import { type AuditAccessEvent, type AuditAction, auditorStreams } from "../../../shared/domain/events/audit.ts";
import { toStreamName } from "../../../shared/domain/events/category.ts";
import { instant } from "../../../shared/domain/events/fields.ts";
import { createEventLog, type EventLog } from "../../../shared/eventstore/log.ts";
import { readLogEnd } from "../../../shared/eventstore/read-log.ts";
import { concernsOneStream } from "../../../shared/eventstore/stream-failure.ts";
import { KeyStoreUnavailableError } from "../../../shared/personal-data/data-keys.ts";
import { isDecryptionError } from "../../../shared/personal-data/decrypt-events.ts";
import { loadAggregate } from "../../handling/handle.ts";
import type { AuditEvent, LogEvent } from "../log/audit-event.ts";
import { readFirstEvent } from "../log/read-stream.ts";
import { scanLog } from "../log/scan.ts";
import { type AuditQuery, type ItemStream, limitItems, type ReadOptions } from "../queries/audit-query.ts";
import {
  EMPTY_RANGE_ISSUE,
  getSubject,
  hasOneSubject,
  isRangeNotEmpty,
  ONE_SUBJECT_ISSUE,
  positionField,
  subjectFields,
} from "../queries/query-fields.ts";
import {
  type AccessRelation,
  createClinicRelationFinder,
  createStreamRelationFinder,
  createSubjectRelationFinder,
  type RelationFinder,
} from "./access-relation.ts";

const accessesQuerySchema = z
  .strictObject({
    ...subjectFields,
    /** Inclusive. */
    from: instant.optional(),
    /** Exclusive. */
    to: instant.optional(),
    after: positionField.optional(),
    limit: z.coerce.number().int().min(1).max(1_000_000).optional(),
  })
  .refine(hasOneSubject, ONE_SUBJECT_ISSUE)
  .refine(isRangeNotEmpty, EMPTY_RANGE_ISSUE);
type AccessesQuery = z.output<typeof accessesQuerySchema>;

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

/**
 * Lists who read or exported the records of a clinic or of another subject, in log order. Lists nothing for a clinic or
 * a subject outside the reader's scope. The iteration throws {@link LogUnavailableError}.
 */
export const accessesQuery: AuditQuery<typeof accessesQuerySchema, ItemStream<ClinicAccess>> = {
  action: "accesses",
  schema: accessesQuerySchema,
  isScan: true,
  run: async (query, options) => limitItems(readAccesses(query, options), query.limit),
};

async function* readAccesses(query: AccessesQuery, options: ReadOptions): AsyncGenerator<ClinicAccess, void> {
  const { from, to, after } = query;
  const { client, dataKeys, permittedClinicIds, signal, onProgress } = options;
  if (permittedClinicIds && query.clinic && !permittedClinicIds.includes(query.clinic)) return;
  const endPosition = await readLogEnd(client);
  const relations = await createRelationFinder(query, options);
  const personalLog = createEventLog(client, { dataKeys });
  const findScope = remember((id) =>
    readAuditorScope(client, id).catch(async (error: unknown) => {
      if (await concernsOneStream(personalLog, error)) return null;
      throw error;
    }),
  );
  const findAuditorName = remember((id) => readAuditorName(personalLog, id));
  const scan = scanLog({ client, prefixes: relations.prefixes, endPosition, signal, onProgress });
  for await (const { auditEvent, catalogEvent } of scan) {
    relations.addEvent(auditEvent);
    if (catalogEvent?.type !== "AuditAccessed") continue;
    const { occurredAt } = catalogEvent.metadata;
    if ((after !== undefined && BigInt(auditEvent.position) <= after) || occurredAt < (from ?? "")) continue;
    if (to !== undefined && occurredAt >= to) continue;
    const { data } = catalogEvent;
    const auditorScope = data.auditorId === null ? null : await findScope(data.auditorId);
    const relation = await relations.find(data, auditorScope);
    if (!relation) continue;
    const isWithinScope =
      !permittedClinicIds ||
      ((relation === "certain" || data.clinicIds.length > 0) &&
        data.clinicIds.every((id) => permittedClinicIds.includes(id)));
    const auditorName = data.auditorId === null ? null : await findAuditorName(data.auditorId);
    yield toClinicAccess(auditEvent, data, { relation, auditorName, isWithinScope, occurredAt });
  }
}

async function createRelationFinder(query: AccessesQuery, { client, isVisible }: ReadOptions): Promise<RelationFinder> {
  if (query.clinic !== undefined) return createClinicRelationFinder(client, query.clinic);
  if (query.stream !== undefined) return createStreamRelationFinder(client, query.stream, isVisible);
  return createSubjectRelationFinder(getSubject(query), isVisible);
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

function remember<Result>(find: (id: string) => Promise<Result>): (id: string) => Promise<Result> {
  const promises = new Map<string, Promise<Result>>();
  return (id) => {
    const promise = promises.get(id) ?? find(id);
    promises.set(id, promise);
    return promise;
  };
}

/**
 * Reads the clinics that an auditor may see from the registration, because the scope never changes.
 *
 * @returns null for all clinics, also if this release cannot read the registration
 * @throws {LogUnavailableError}
 */
async function readAuditorScope(client: EventStoreDBClient, auditorId: string): Promise<readonly string[] | null> {
  const event = (await readFirstEvent(client, toStreamName(auditorStreams, auditorId)))?.catalogEvent;
  return event?.type === "AuditorRegistered" ? event.data.clinicIds : null;
}

/**
 * Returns an auditor's name. Returns null if the auditor does not exist, or the name cannot be read or decrypted.
 *
 * @throws {LogUnavailableError}
 */
export async function readAuditorName(personalLog: EventLog, auditorId: string): Promise<string | null> {
  try {
    const { state, isKeyMissing } = await loadAggregate(personalLog, auditorAggregate, auditorId);
    return isKeyMissing ? null : (state?.name ?? null);
  } catch (error) {
    const isNameUnavailable = error instanceof KeyStoreUnavailableError || isDecryptionError(error);
    if (isNameUnavailable || (await concernsOneStream(personalLog, error))) return null;
    throw error;
  }
}
