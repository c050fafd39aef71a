import type { EventStoreDBClient } from "@eventstore/db-client";
import { z } from "zod";
import { type Auditor, auditorAggregate } from "../../../shared/domain/audit/auditor.ts";
import type { AuditAccessEvent, AuditAction } from "../../../shared/domain/events/audit.ts";
import { instant, uuid } from "../../../shared/domain/events/fields.ts";
import { createEventLog, type EventLog } from "../../../shared/eventstore/log.ts";
import { readLogEnd } from "../../../shared/eventstore/read-log.ts";
import { KeyStoreUnavailableError } from "../../../shared/personal-data/data-keys.ts";
import { isDecryptionError } from "../../../shared/personal-data/decrypt-events.ts";
import { loadAggregate } from "../../handling/handle.ts";
import type { AuditEvent, LogEvent } from "../log/audit-event.ts";
import { readFirstEvent } from "../log/read-stream.ts";
import { scanLog } from "../log/scan.ts";
import { type AuditQuery, type ItemStream, limitItems, type ReadOptions } from "../queries/audit-query.ts";
import { EMPTY_RANGE_ISSUE, isRangeNotEmpty, positionField } from "../queries/query-fields.ts";
import { getClinicIds } from "./visibility.ts";

const accessesQuerySchema = z
  .strictObject({
    clinic: uuid,
    /** Inclusive. */
    from: instant.optional(),
    /** Exclusive. */
    to: instant.optional(),
    after: positionField.optional(),
    limit: z.coerce.number().int().min(1).max(1_000_000).optional(),
  })
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

const ACCESS_PREFIXES = ["auditAccess-"];

/**
 * Lists who read or exported the records of a clinic, in log order. Lists nothing for a clinic outside the reader's
 * scope. The iteration throws {@link LogUnavailableError}.
 */
export const accessesQuery: AuditQuery<typeof accessesQuerySchema, ItemStream<ClinicAccess>> = {
  action: "accesses",
  schema: accessesQuerySchema,
  isScan: true,
  run: async (query, options) => limitItems(readAccesses(query, options), query.limit),
};

async function* readAccesses(
  { clinic, from, to, after }: AccessesQuery,
  { client, dataKeys, permittedClinicIds, signal, onProgress }: ReadOptions,
): AsyncGenerator<ClinicAccess, void> {
  if (permittedClinicIds && !permittedClinicIds.includes(clinic)) return;
  const endPosition = await readLogEnd(client);
  const findRelation = createRelationFinder(client, clinic);
  // The auditor's scope must be known even if the name cannot be decrypted.
  const log = createEventLog(client);
  const findAuditor = remember(async (id) => (await loadAggregate(log, auditorAggregate, id)).state);
  const personalLog = createEventLog(client, { dataKeys });
  const findAuditorName = remember((id) => readAuditorName(personalLog, id));
  const scan = scanLog({ client, prefixes: ACCESS_PREFIXES, endPosition, signal, onProgress });
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

function remember<Result>(find: (id: string) => Promise<Result>): (id: string) => Promise<Result> {
  const promises = new Map<string, Promise<Result>>();
  return (id) => {
    const promise = promises.get(id) ?? find(id);
    promises.set(id, promise);
    return promise;
  };
}

const MAX_REMEMBERED_STREAMS = 10_000;

/**
 * Relation of an access to a clinic. `certain`: the query names the clinic or one of its records, or the response
 * contained such a record. `possible`: the query can also have returned events of other clinics, and the reader was
 * permitted to see the clinic.
 */
type AccessRelation = "certain" | "possible";

/** Fields of a query that name a record with its own stream. */
const RECORD_FIELDS = ["appointment", "customer", "animal"];

/** Fields of a query whose events can belong to several clinics. */
const SHARED_FIELDS = ["correlation", "application"];

/**
 * Creates a function that returns the relation of an access to a clinic; undefined if they are not related. The clinic
 * of a record is read from the first event of the record's stream, and is remembered.
 */
function createRelationFinder(client: EventStoreDBClient, clinicId: string) {
  const clinicIdsByStream = new Map<string, readonly string[]>();

  async function findClinicIds(stream: string): Promise<readonly string[]> {
    const rememberedIds = clinicIdsByStream.get(stream);
    if (rememberedIds) return rememberedIds;
    const firstEvent = await readFirstEvent(client, stream);
    const clinicIds = firstEvent ? getClinicIds(firstEvent.auditEvent) : [];
    if (clinicIdsByStream.size >= MAX_REMEMBERED_STREAMS) clinicIdsByStream.clear();
    clinicIdsByStream.set(stream, clinicIds);
    return clinicIds;
  }

  /** @param auditor the auditor who made the access; undefined for an operator, who may see all clinics */
  return async (
    { asked, clinicIds }: AuditAccessEvent["data"],
    auditor: Auditor | undefined,
  ): Promise<AccessRelation | undefined> => {
    const isPermitted = !auditor?.clinicIds || auditor.clinicIds.includes(clinicId);
    if (!isPermitted) return undefined;
    if (clinicIds.includes(clinicId) || toId(asked.clinic) === clinicId) return "certain";
    for (const stream of listStreams(asked)) {
      if ((await findClinicIds(stream)).includes(clinicId)) return "certain";
    }
    return SHARED_FIELDS.some((field) => asked[field] !== undefined) ? "possible" : undefined;
  };
}

/** Lists the streams that a query names. */
export function listStreams(asked: Readonly<Record<string, unknown>>): string[] {
  const recordStreams = RECORD_FIELDS.flatMap((field) => {
    const id = toId(asked[field]);
    return id === undefined ? [] : [`${field}-${id}`];
  });
  return typeof asked.stream === "string" ? [asked.stream, ...recordStreams] : recordStreams;
}

function toId(value: unknown): string | undefined {
  return typeof value === "string" ? value.toLowerCase() : undefined;
}

/**
 * Returns an auditor's name. Returns null if the auditor does not exist, or the name cannot be decrypted.
 *
 * @throws {LogUnavailableError}
 */
export async function readAuditorName(personalLog: EventLog, auditorId: string): Promise<string | null> {
  try {
    const { state, isKeyMissing } = await loadAggregate(personalLog, auditorAggregate, auditorId);
    return isKeyMissing ? null : (state?.name ?? null);
  } catch (error) {
    if (error instanceof KeyStoreUnavailableError || isDecryptionError(error)) return null;
    throw error;
  }
}
