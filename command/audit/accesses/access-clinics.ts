import type { EventStoreDBClient } from "@eventstore/db-client";
import type { Auditor } from "../../../shared/domain/audit/auditor.ts";
import type { AuditAccessEvent } from "../../../shared/domain/events/audit.ts";
import { getClinicIds } from "../access/visibility.ts";
import { readFirstEvent } from "../log/read-stream.ts";

/** Maximum number of streams whose clinics are remembered. */
const MAX_REMEMBERED_STREAMS = 10_000;

/**
 * Relation of an access to a clinic. `certain`: the query names the clinic or one of its records, or the response
 * contained such a record. `possible`: the query can also have returned events of other clinics, and the reader was
 * permitted to see the clinic.
 */
export type AccessRelation = "certain" | "possible";

/** Fields of a query that name a record with its own stream. */
const RECORD_FIELDS = ["appointment", "customer", "animal"];

/** Fields of a query whose events can belong to several clinics. */
const SHARED_FIELDS = ["correlation", "application"];

/**
 * Creates a function that returns the relation of an access to a clinic; undefined if they are not related. The clinic
 * of a record is read from the first event of the record's stream, and is remembered.
 */
export function createRelationFinder(client: EventStoreDBClient, clinicId: string) {
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
    // A query outside the reader's scope returned no records.
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
