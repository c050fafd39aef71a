import { clinicAggregate } from "../../shared/domain/clinic/clinic.ts";
import { appointmentStreams, holdStreams, queueTicketStreams } from "../../shared/domain/events/appointment.ts";
import { type Category, toStreamName } from "../../shared/domain/events/category.ts";
import { clinicStreams, resourceStreams, serviceStreams } from "../../shared/domain/events/clinic.ts";
import { uuid } from "../../shared/domain/events/fields.ts";
import { webhookEndpointStreams } from "../../shared/domain/events/partner.ts";
import { animalStreams, customerStreams, membershipStreams, staffStreams } from "../../shared/domain/events/people.ts";
import { timeZone } from "../../shared/domain/time/time-zone.ts";
import { readStoredEvents } from "../../shared/eventstore/read-log.ts";
import { loadAggregate } from "../handling/handle.ts";
import { withEventLog } from "../handling/operator.ts";

/** Stream categories of a clinic and its objects, by the command-line option that contains the id of the object. */
const CATEGORIES: Record<string, Category> = {
  ...{ clinic: clinicStreams, appointment: appointmentStreams, customer: customerStreams, animal: animalStreams },
  ...{ ticket: queueTicketStreams, hold: holdStreams, resource: resourceStreams, service: serviceStreams },
  ...{ membership: membershipStreams, staff: staffStreams, endpoint: webhookEndpointStreams },
};

/**
 * Finds the time zone for a command from its options. Uses the option `timezone` if it is valid. Otherwise, uses the
 * time zone of the clinic that owns the object or stream named in the options. Returns undefined if there is no such
 * object.
 *
 * @throws {ConfigError} if EVENTSTORE_URL is missing or invalid
 */
export async function findTimeZone(
  given: Record<string, unknown>,
  env: NodeJS.ProcessEnv,
): Promise<string | undefined> {
  const ownTimeZone = timeZone.safeParse(given.timezone);
  if (ownTimeZone.success) return ownTimeZone.data;
  const [stream = given.stream] = Object.entries(CATEGORIES).flatMap(([key, category]) => {
    const { data: id } = uuid.safeParse(given[key]);
    return id === undefined ? [] : [toStreamName(category, id)];
  });
  if (typeof stream !== "string") return undefined;
  return withEventLog(env, async (log, client) => {
    const [event] = await readStoredEvents(client, stream, { fromRevision: 0n, maxCount: 1 });
    const { clinicId } = (event?.metadata ?? {}) as { clinicId?: string | null };
    if (!uuid.safeParse(clinicId).success) return undefined;
    return (await loadAggregate(log, clinicAggregate, clinicId as string)).state?.timezone;
  });
}
