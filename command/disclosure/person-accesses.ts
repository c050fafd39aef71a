import { listStreams } from "../audit/access/access-relation.ts";
import type { ClinicAccess } from "../audit/access/list-accesses.ts";
import type { DisclosedAccess } from "./disclosure.ts";
import type { PersonEvent } from "./person-records.ts";

/**
 * Creates a function that returns the extent to which an access to the clinic's records concerned a person; undefined if
 * it did not.
 */
export function createExtentFinder(
  recordIds: ReadonlySet<string>,
  events: readonly PersonEvent[],
): (access: ClinicAccess) => DisclosedAccess["extent"] | undefined {
  const streams = new Set(events.map(({ event }) => event.stream));
  const correlationIds = new Set(events.map(({ event }) => event.metadata.$correlationId));
  return ({ action, asked, found, at }) => {
    const query = asked ?? {};
    if (action === "export") return isAnyEventExported(events, query, at) ? "export" : undefined;
    const isNamed = listStreams(query).some((stream) => streams.has(stream));
    const isRequestOfPerson = typeof query.correlation === "string" && correlationIds.has(query.correlation);
    const isFound = found.some((id) => recordIds.has(id)) || recordIds.has(String(query.customer));
    if (isNamed || isRequestOfPerson || isFound) return "individual";
    const isAboutClinic = query.clinic !== undefined && RESPONSES_WITHOUT_IDS.has(action);
    return isAboutClinic || query.application !== undefined ? "possible" : undefined;
  };
}

/** Actions whose recorded access lacks the ids in the response. */
const RESPONSES_WITHOUT_IDS = new Set(["events", "latest", "accesses"]);

/**
 * Returns true if an export of the clinic contains one of the events. The range of an export refers to the times at
 * which the log stored the events.
 *
 * @param exportedAt end of the range if the query names none
 */
function isAnyEventExported(
  events: readonly PersonEvent[],
  { from, to }: Record<string, unknown>,
  exportedAt: string,
): boolean {
  const startMs = typeof from === "string" ? Date.parse(from) : Number.NEGATIVE_INFINITY;
  const endMs = Date.parse(typeof to === "string" ? to : exportedAt);
  return events.some(({ storedAt }) => Date.parse(storedAt) >= startMs && Date.parse(storedAt) < endMs);
}
