import { clinicAggregate } from "../../../shared/domain/clinic/clinic.ts";
import { addDays, getStartOfDay } from "../../../shared/domain/time/local-time.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { loadAggregate } from "../../handling/handle.ts";
import type { ListQuery } from "./list-events.ts";

/**
 * Replaces the day of a query by a time range in the clinic's time zone. If the clinic does not exist, uses UTC.
 *
 * @throws {LogUnavailableError} if the event log cannot be read
 */
export async function resolveDay(query: ListQuery, log: EventLog): Promise<ListQuery> {
  const { day, clinic } = query;
  if (day === undefined || clinic === undefined) return query;
  const { state } = await loadAggregate(log, clinicAggregate, clinic);
  const timeZone = state?.timezone ?? "UTC";
  const from = toInstant(getStartOfDay(timeZone, day));
  const to = toInstant(getStartOfDay(timeZone, addDays(day, 1)));
  return { ...query, from, to };
}
