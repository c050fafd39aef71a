import { DomainError } from "../../shared/domain/domain-error.ts";
import { streamName } from "../../shared/domain/events/category.ts";
import { installationId } from "../../shared/domain/events/ids.ts";
import {
  type EndpointReservation,
  type WebhookEndpointPlacesEvent,
  webhookEndpointPlacesCategory,
} from "../../shared/domain/events/partner.ts";
import { type EndpointOwner, endpointAggregate } from "../../shared/domain/partner/webhook-endpoint.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { EMPTY_STREAM, type EventLog } from "../../shared/eventstore/log.ts";
import { changeStream, type Plan } from "../handling/change-stream.ts";
import { type CommandContext, load, toNewEvent } from "../handling/handle.ts";

/** Maximum number of endpoints of an application at a clinic, not counting revoked endpoints. */
export const MAX_ENDPOINTS = 50;

/**
 * Time after which a reservation without an endpoint is freed, because its registration was interrupted.
 * Milliseconds.
 */
const REGISTRATION_TIMEOUT_MS = 60_000;

interface Taking {
  endpointId: string;
  context: CommandContext;
}

/**
 * Reserves an endpoint in the quota of an application at a clinic. The endpoint is registered afterwards in its own
 * stream. Reservations of revoked endpoints are freed only when the quota is exhausted.
 *
 * @throws {DomainError} `webhook_endpoint_limit_reached`
 * @throws {WrongExpectedRevisionError} if other writers were first for 10 seconds
 */
export function reserveEndpoint(
  log: EventLog,
  { owner, endpointId }: { owner: EndpointOwner; endpointId: string },
  context: CommandContext,
): Promise<void> {
  const id = installationId(owner.applicationId, owner.clinicId);
  const stream = streamName(webhookEndpointPlacesCategory, id);
  return changeStream<Taking, void>(log, stream, { endpointId, context }, async (takings) => {
    const last = await log.readLast<WebhookEndpointPlacesEvent>(stream);
    const known = last?.data.places ?? [];
    const isScarce = known.length + takings.length > MAX_ENDPOINTS;
    const now = Math.max(...takings.map(({ context }) => context.now));
    const places = isScarce ? await stillTaken(log, known, now) : known;
    return planPlaces(id, { places, revision: last?.revision ?? EMPTY_STREAM }, takings);
  });
}

/** Grants the free reservations in order. Each event contains all reservations at that point. */
function planPlaces(
  id: string,
  { places, revision }: { places: EndpointReservation[]; revision: bigint },
  takings: Taking[],
): Plan<void> {
  const free = Math.max(0, MAX_ENDPOINTS - places.length);
  const taken = takings.map(({ endpointId, context }) => ({ endpointId, takenAt: toInstant(context.now) }));
  const events = takings.slice(0, free).map((taking, index) => {
    const data = { installationId: id, places: [...places, ...taken.slice(0, index + 1)] };
    return toNewEvent({ type: "WebhookEndpointPlaceTaken", data }, taking);
  });
  return {
    revision,
    events,
    outcomes: () =>
      takings.map((_, index) => (index < free ? { result: undefined } : { error: limitReached() })),
  };
}

function limitReached(): DomainError {
  const message = `there are already ${MAX_ENDPOINTS} webhook endpoints; revoke one first`;
  return new DomainError("webhook_endpoint_limit_reached", message);
}

async function stillTaken(
  log: EventLog,
  places: EndpointReservation[],
  now: number,
): Promise<EndpointReservation[]> {
  const isTaken = async ({ endpointId, takenAt }: EndpointReservation) => {
    const { state } = await load(log, endpointAggregate, endpointId);
    return state ? state.status !== "revoked" : now - Date.parse(takenAt) < REGISTRATION_TIMEOUT_MS;
  };
  const taken = await Promise.all(places.map(isTaken));
  return places.filter((_, index) => taken[index]);
}
