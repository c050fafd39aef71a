import { z } from "zod";
import type { Aggregate } from "../../../shared/domain/aggregate.ts";
import { auditorAggregate } from "../../../shared/domain/audit/auditor.ts";
import { type AuditAction, auditorStreams } from "../../../shared/domain/events/audit.ts";
import { type Category, toStreamName } from "../../../shared/domain/events/category.ts";
import { instant } from "../../../shared/domain/events/fields.ts";
import { createEventLog, type EventLog } from "../../../shared/eventstore/log.ts";
import { concernsOneStream } from "../../../shared/eventstore/stream-failure.ts";
import { KeyStoreUnavailableError } from "../../../shared/personal-data/data-keys.ts";
import { isDecryptionError } from "../../../shared/personal-data/decrypt-events.ts";
import { loadAggregate } from "../../handling/handle.ts";
import type { RowQuery } from "../index/audit-index.ts";
import { SHARED_ACCESS_KEY, toPurposeKey } from "../index/index-keys.ts";
import { type IndexedLog, readIndexedEvents } from "../index/read-rows.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import { readFirstEvent } from "../log/read-stream.ts";
import { type AuditQuery, type ItemStream, limitItems, type ReadOptions } from "../queries/audit-query.ts";
import {
  getEventTime,
  getSubject,
  nonEmptyRange,
  oneSubject,
  pageFields,
  subjectFields,
  toRange,
  toSubjectKey,
} from "../queries/query-fields.ts";
import { getClinicIds, isVisible } from "./visibility.ts";

const accessesQuerySchema = z
  .strictObject({
    ...subjectFields,
    /** Start of the period, inclusive. */
    from: instant.optional(),
    /** End of the period, exclusive. */
    to: instant.optional(),
    ...pageFields,
  })
  .refine(...oneSubject)
  .refine(...nonEmptyRange);
type AccessesQuery = z.output<typeof accessesQuerySchema>;

/**
 * Relation of an access to a subject, such as a clinic or a customer. `certain`: the query named the subject or one of
 * its records, or the response contained such a record. `possible`: the query was wider, and its response may have
 * contained records of the subject.
 */
type AccessRelation = "certain" | "possible";

export interface ClinicAccess extends Pick<AuditEvent, "position" | "actor" | "problem"> {
  accessId: string;
  at: string;
  /** Name of the auditor. Null if an operator made the access, or if the name is unavailable. */
  auditorName: string | null;
  /** `unknown` if `problem` says why the recorded access cannot be read. */
  action: AuditAction | "unknown";
  relation: AccessRelation;
  /** Parameters of the recorded query; null if unknown, or if it may have concerned clinics outside the reader's scope. */
  asked: Record<string, unknown> | null;
  /** Recorded ids of the records in the response; empty if `asked` is null. */
  found: string[];
}

/**
 * Lists who read or exported the records of a clinic or of another subject, in log order or in the reverse order.
 * Lists nothing for a clinic or a subject outside the reader's scope. The iteration throws {@link LogUnavailableError}.
 */
export const accessesQuery: AuditQuery<typeof accessesQuerySchema, ItemStream<ClinicAccess>> = {
  action: "accesses",
  schema: accessesQuerySchema,
  run: async (query, options) => limitItems(readAccesses(query, options), query.limit),
};

async function* readAccesses(query: AccessesQuery, options: ReadOptions): AsyncGenerator<ClinicAccess, void> {
  const { from, to } = query;
  const { client, index, dataKeys, permittedClinicIds, signal } = options;
  const logEnd = await index.awaitLogEnd(client);
  const subject = await findSubject(query, options);
  if (!subject) return;
  const personalLog = createEventLog(client, { dataKeys });
  const findScope = remember((id) =>
    readAuditorScope(options, id).catch(async (error: unknown) => {
      if (await concernsOneStream(personalLog, error)) return null;
      throw error;
    }),
  );
  const findAuditorName = remember((id) => readAuditorName(personalLog, id));
  const { clinicIds, ...keys } = subject;
  const rowQuery = { ...keys, from, to, ...toRange(query, logEnd), clinicIds: null };
  const pageSize = Math.min(MAX_PAGE_SIZE, query.limit ?? MAX_PAGE_SIZE);
  for await (const { auditEvent, catalogEvent, row } of readIndexedEvents(options, rowQuery, undefined, pageSize)) {
    if (signal?.aborted) return;
    const data = catalogEvent?.type === "AuditAccessed" ? catalogEvent.data : undefined;
    const { id: accessId, position, actor, problem } = auditEvent;
    const auditorId = actor?.type === "auditor" ? actor.id : null;
    const scope = auditorId === null ? null : await findScope(auditorId);
    if (scope && !scope.some((id) => clinicIds.includes(id))) continue;
    const relation = row.isCertain ? "certain" : "possible";
    const isWithinScope =
      !permittedClinicIds ||
      ((relation === "certain" || data?.clinicIds.length) &&
        data?.clinicIds.every((id) => permittedClinicIds.includes(id)));
    yield {
      ...{ accessId, at: getEventTime(auditEvent, "occurred"), position, actor },
      auditorName: auditorId === null ? null : await findAuditorName(auditorId),
      ...{ action: data?.action ?? "unknown", relation },
      ...(data && isWithinScope ? { asked: data.asked, found: data.found } : { asked: null, found: [] }),
      ...(problem !== undefined && { problem }),
    };
  }
}

const MAX_PAGE_SIZE = 200;

interface AccessSubject extends Pick<RowQuery, "keys" | "possibleKeys"> {
  /**
   * Clinics that own the subject's records. Accesses by auditors without one of these clinics in their scope are
   * omitted.
   */
  clinicIds: readonly string[];
}

/**
 * Returns the index keys for accesses to the queried subject. Returns undefined if the reader may not see the subject.
 */
async function findSubject(query: AccessesQuery, options: ReadOptions): Promise<AccessSubject | undefined> {
  const { index, permittedClinicIds } = options;
  const toSubject = (ids: readonly string[], clinicIds: readonly string[]) => ({
    keys: ids.map((id) => toPurposeKey("accessed", id)),
    possibleKeys: [...clinicIds.map((id) => toPurposeKey("accessed clinic", id)), SHARED_ACCESS_KEY],
    clinicIds,
  });
  if (query.clinic !== undefined) {
    if (permittedClinicIds && !permittedClinicIds.includes(query.clinic)) return undefined;
    return toSubject([query.clinic], [query.clinic]);
  }
  if (query.stream !== undefined) {
    const firstEvent = (await readFirstEvent(options, query.stream))?.auditEvent;
    if (!firstEvent || !isVisible(firstEvent, permittedClinicIds)) return undefined;
    return toSubject([query.stream.slice(query.stream.indexOf("-") + 1)], getClinicIds(firstEvent));
  }
  const subject = getSubject(query);
  const { eventCount, clinics, ids } = await index.summarize(toSubjectKey(subject), permittedClinicIds);
  if (eventCount === 0n) return undefined;
  return toSubject([subject.id, ...(subject.kind === "correlation" ? ids : [])], clinics);
}

/** Memoizes an asynchronous function by its id argument. */
export function remember<Result>(find: (id: string) => Promise<Result>): (id: string) => Promise<Result> {
  const promises = new Map<string, Promise<Result>>();
  return (id) => {
    const promise = promises.get(id) ?? find(id);
    promises.set(id, promise);
    return promise;
  };
}

/**
 * Reads an auditor's scope from the registration event. No later event changes the scope.
 *
 * @returns ids of the permitted clinics; null for all clinics, or if this release cannot read the registration
 * @throws {LogUnavailableError}
 */
async function readAuditorScope(log: IndexedLog, auditorId: string): Promise<readonly string[] | null> {
  const event = (await readFirstEvent(log, toStreamName(auditorStreams, auditorId)))?.catalogEvent;
  return event?.type === "AuditorRegistered" ? event.data.clinicIds : null;
}

/** Returns an auditor's name; null if the auditor does not exist, or the name cannot be read or decrypted. */
export async function readAuditorName(personalLog: EventLog, auditorId: string): Promise<string | null> {
  return (await loadReadable(personalLog, auditorAggregate, auditorId))?.name ?? null;
}

/**
 * Loads the state of an aggregate. Returns undefined if the aggregate does not exist, or its events cannot be read or
 * decrypted.
 *
 * @throws {LogUnavailableError}
 */
export async function loadReadable<C extends Category, State>(
  personalLog: EventLog,
  aggregate: Aggregate<C, State>,
  id: string,
): Promise<State | undefined> {
  try {
    const { state, isKeyMissing } = await loadAggregate(personalLog, aggregate, id);
    return isKeyMissing ? undefined : state;
  } catch (error) {
    const isUnavailable = error instanceof KeyStoreUnavailableError || isDecryptionError(error);
    if (isUnavailable || (await concernsOneStream(personalLog, error))) return undefined;
    throw error;
  }
}
