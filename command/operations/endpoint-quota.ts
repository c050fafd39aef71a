import { DomainError } from "../../shared/domain/domain-error.ts";
import { toStreamName } from "../../shared/domain/events/category.ts";
import { deriveInstallationId } from "../../shared/domain/events/ids.ts";
import {
  type EndpointReservation,
  type WebhookEndpointPlacesEvent,
  webhookEndpointPlacesCategory,
} from "../../shared/domain/events/partner.ts";
import { type EndpointOwner, endpointAggregate } from "../../shared/domain/partner/webhook-endpoint.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { EMPTY_STREAM, type EventLog } from "../../shared/eventstore/log.ts";
import { type BatchDecision, changeStream } from "../handling/change-stream.ts";
import { type CommandContext, loadAggregate, toNewEvent } from "../handling/handle.ts";

/** Maximum number of endpoints of an application at a clinic. Revoked endpoints do not count. */
export const MAX_ENDPOINTS = 50;

/** Time after which the reservation of an interrupted registration can be released. Milliseconds. */
const REGISTRATION_TIMEOUT_MS = 60_000;

interface Reservation {
  endpointId: string;
  context: CommandContext;
}

/**
 * Reserves a place for an endpoint in the quota of an application at a clinic. The caller then registers the endpoint
 * in the endpoint's own stream. The places of revoked endpoints are released only when the quota is exhausted.
 *
 * @throws {DomainError} `webhook_endpoint_limit_reached`
 * @throws {WrongExpectedRevisionError} if other writers kept appending first for 10 seconds
 */
export function reserveEndpointPlace(
  log: EventLog,
  { owner, endpointId }: { owner: EndpointOwner; endpointId: string },
  context: CommandContext,
): Promise<void> {
  const id = deriveInstallationId(owner.applicationId, owner.clinicId);
  const stream = toStreamName(webhookEndpointPlacesCategory, id);
  return changeStream<Reservation, void>(log, stream, { endpointId, context }, async (reservations) => {
    const lastEvent = await log.readLast<WebhookEndpointPlacesEvent>(stream);
    const recordedPlaces = lastEvent?.data.places ?? [];
    const isExhausted = recordedPlaces.length + reservations.length > MAX_ENDPOINTS;
    const now = Math.max(...reservations.map(({ context }) => context.now));
    const places = isExhausted ? await removeReleasedPlaces(log, recordedPlaces, now) : recordedPlaces;
    return decideReservations(id, { places, revision: lastEvent?.revision ?? EMPTY_STREAM }, reservations);
  });
}

/** Grants reservations in order while places are free. Each event contains all places that are taken at that time. */
function decideReservations(
  id: string,
  { places, revision }: { places: EndpointReservation[]; revision: bigint },
  reservations: Reservation[],
): BatchDecision<void> {
  const freeCount = Math.max(0, MAX_ENDPOINTS - places.length);
  const grantedReservations = reservations.slice(0, freeCount);
  const newPlaces = grantedReservations.map(({ endpointId, context: { now } }) => ({
    endpointId,
    takenAt: toInstant(now),
  }));
  const events = grantedReservations.map(({ context }, index) => {
    const data = { installationId: id, places: [...places, ...newPlaces.slice(0, index + 1)] };
    return toNewEvent({ type: "WebhookEndpointPlaceTaken", data }, context);
  });
  return {
    revision,
    events,
    toOutcomes: () =>
      reservations.map((_, index) => (index < freeCount ? { result: undefined } : { error: createLimitError() })),
  };
}

function createLimitError(): DomainError {
  const message = `there are already ${MAX_ENDPOINTS} webhook endpoints; revoke one first`;
  return new DomainError("webhook_endpoint_limit_reached", message);
}

/** Removes the places of revoked endpoints and of interrupted registrations. */
async function removeReleasedPlaces(
  log: EventLog,
  places: EndpointReservation[],
  now: number,
): Promise<EndpointReservation[]> {
  const isTaken = async ({ endpointId, takenAt }: EndpointReservation) => {
    const { state } = await loadAggregate(log, endpointAggregate, endpointId);
    return state ? state.status !== "revoked" : now - Date.parse(takenAt) < REGISTRATION_TIMEOUT_MS;
  };
  const takenFlags = await Promise.all(places.map(isTaken));
  return places.filter((_, index) => takenFlags[index]);
}
