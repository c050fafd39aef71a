import type { EventStoreDBClient } from "@eventstore/db-client";
import type { AuditAccessEvent } from "../../../shared/domain/events/audit.ts";
import { createEventLog } from "../../../shared/eventstore/log.ts";
import { concernsOneStream } from "../../../shared/eventstore/stream-failure.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import { readFirstEvent } from "../log/read-stream.ts";
import {
  createRelatedEventFilter,
  getStreamPrefixes,
  type Subject,
  startsObject,
} from "../related-events/related-events.ts";
import { getClinicIds, type IsVisible } from "./visibility.ts";

/**
 * Relation of an access to a subject, such as a clinic or a customer. `certain`: the query names the subject or one of
 * its records, or the response contained such a record. `possible`: the query had a wider subject, so its response may
 * have contained records of this subject.
 */
export type AccessRelation = "certain" | "possible";

type AccessData = AuditAccessEvent["data"];

/** Finds the relations of accesses to one subject, in one pass over the log. */
export interface RelationFinder {
  /** Prefixes of the streams to scan; undefined for all streams. */
  prefixes: readonly string[] | undefined;
  /** Must be called with each event of these streams, in log order. */
  addEvent(event: AuditEvent): void;
  /**
   * Returns the relation of an access; undefined if the access did not concern the subject.
   *
   * @param auditorScope clinics that the reader may see; null for all clinics, as for an operator
   */
  find(access: AccessData, auditorScope: readonly string[] | null): Promise<AccessRelation | undefined>;
}

const ACCESS_PREFIX = "auditAccess-";

const MAX_REMEMBERED_STREAMS = 10_000;

/** Fields of a query that name a record with its own stream. */
const RECORD_FIELDS = ["appointment", "customer", "animal"];

/** Fields of a query whose events can belong to several clinics. */
const SHARED_FIELDS = ["correlation", "application"];

/** Actions whose recorded access lacks the ids in the response. */
const RESPONSES_WITHOUT_IDS = new Set(["events", "latest", "export"]);

/**
 * Finds the accesses to the records of a clinic. The clinic of a record is read from the first event of the record's
 * stream, and is remembered. A record whose stream the log refuses to read may belong to the clinic.
 */
export function createClinicRelationFinder(client: EventStoreDBClient, clinicId: string): RelationFinder {
  const clinicIdsByStream = new Map<string, readonly string[] | undefined>();
  const log = createEventLog(client);

  /** Returns undefined if the log refuses to read the stream. */
  async function readClinicIds(stream: string): Promise<readonly string[] | undefined> {
    try {
      const firstEvent = await readFirstEvent(client, stream);
      return firstEvent ? getClinicIds(firstEvent.auditEvent) : [];
    } catch (error) {
      if (await concernsOneStream(log, error)) return undefined;
      throw error;
    }
  }

  async function findClinicIds(stream: string): Promise<readonly string[] | undefined> {
    if (clinicIdsByStream.has(stream)) return clinicIdsByStream.get(stream);
    const clinicIds = await readClinicIds(stream);
    if (clinicIdsByStream.size >= MAX_REMEMBERED_STREAMS) clinicIdsByStream.clear();
    clinicIdsByStream.set(stream, clinicIds);
    return clinicIds;
  }

  return {
    prefixes: [ACCESS_PREFIX],
    addEvent: () => undefined,
    async find({ asked, clinicIds }, auditorScope) {
      if (auditorScope && !auditorScope.includes(clinicId)) return undefined;
      if (clinicIds.includes(clinicId) || toId(asked.clinic) === clinicId) return "certain";
      let isPossible = SHARED_FIELDS.some((field) => asked[field] !== undefined);
      for (const stream of listStreams(asked)) {
        const streamClinicIds = await findClinicIds(stream);
        if (streamClinicIds?.includes(clinicId)) return "certain";
        isPossible ||= streamClinicIds === undefined;
      }
      return isPossible ? "possible" : undefined;
    },
  };
}

/**
 * Finds the accesses to the records of a subject: to each stream that starts with an event related to the subject. For
 * a request, these are the streams of all its events. Events that the reader may not see are ignored.
 */
export function createSubjectRelationFinder(subject: Subject, isVisible: IsVisible): RelationFinder {
  const isRelated = createRelatedEventFilter(subject);
  const prefixes = getStreamPrefixes(subject.kind);
  const records = createRecordFinder();
  return {
    prefixes: prefixes && [ACCESS_PREFIX, ...prefixes],
    addEvent(event) {
      if (!isRelated(event) || !isVisible(event)) return;
      if (subject.kind === "correlation" || startsObject(event)) records.add(event.stream, event);
    },
    find: async (access, auditorScope) =>
      records.find(access, auditorScope, toId(access.asked[subject.kind]) === subject.id.toLowerCase()),
  };
}

/** Finds the accesses to one stream. */
export async function createStreamRelationFinder(
  client: EventStoreDBClient,
  stream: string,
  isVisible: IsVisible,
): Promise<RelationFinder> {
  const records = createRecordFinder();
  const firstEvent = await readFirstEvent(client, stream);
  if (firstEvent && isVisible(firstEvent.auditEvent)) records.add(stream, firstEvent.auditEvent);
  return {
    prefixes: [ACCESS_PREFIX],
    addEvent: () => undefined,
    find: async (access, auditorScope) => records.find(access, auditorScope, false),
  };
}

/** Finds the accesses that concern a set of records. Without a record, finds nothing. */
function createRecordFinder() {
  const streams = new Set<string>();
  const ids = new Set<string>();
  const clinicIds = new Set<string>();
  return {
    add(stream: string, event: AuditEvent) {
      streams.add(stream);
      ids.add(stream.slice(stream.indexOf("-") + 1));
      for (const id of getClinicIds(event)) clinicIds.add(id);
    },
    find(access: AccessData, auditorScope: readonly string[] | null, isNamed: boolean): AccessRelation | undefined {
      const { asked, found, action } = access;
      if (streams.size === 0) return undefined;
      if (auditorScope && !auditorScope.some((id) => clinicIds.has(id))) return undefined;
      if (isNamed || found.some((id) => ids.has(id))) return "certain";
      if (listStreams(asked).some((stream) => streams.has(stream))) return "certain";
      const namesClinic = clinicIds.has(toId(asked.clinic) ?? "") && RESPONSES_WITHOUT_IDS.has(action);
      return namesClinic || SHARED_FIELDS.some((field) => asked[field] !== undefined) ? "possible" : undefined;
    },
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
