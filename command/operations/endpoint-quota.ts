import { DomainError } from "../../shared/domain/domain-error.ts";
import { toStreamName } from "../../shared/domain/events/category.ts";
import { deriveInstallationId } from "../../shared/domain/events/ids.ts";
import {
  type EndpointReservation,
  type WebhookEndpointEvent,
  type WebhookEndpointPlacesEvent,
  webhookEndpointPlacesStreams,
  webhookEndpointStreams,
} from "../../shared/domain/events/partner.ts";
import { type EndpointOwner, endpointAggregate } from "../../shared/domain/partner/webhook-endpoint.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { EMPTY_STREAM, type EventLog } from "../../shared/eventstore/log.ts";
import { concernsOneStream } from "../../shared/eventstore/stream-failure.ts";
import { changeStream } from "../handling/change-stream.ts";
import { type CommandContext, loadAggregate, toNewEvent } from "../handling/handle.ts";

/**
 * Maximum number of endpoints of an application at each clinic, and outside all clinics. Revoked endpoints do not
 * count.
 */
export const MAX_ENDPOINTS = 50;

/** Time after which the place of an interrupted registration can be released. */
const REGISTRATION_TIMEOUT_MS = 60_000;

/**
 * Reserves a place in the endpoint quota of an owner. The caller then registers the endpoint in the endpoint's own
 * stream. Each event contains all places that are taken at that time. Places of revoked and deleted endpoints are
 * released only when the quota is exhausted.
 *
 * @throws {DomainError} `webhook_endpoint_limit_reached`
 * @throws {WrongExpectedRevisionError} if other writers kept appending first for 10 seconds
 */
export async function reserveEndpointPlace(
  log: EventLog,
  { owner, endpointId }: { owner: EndpointOwner; endpointId: string },
  context: CommandContext,
): Promise<void> {
  const { applicationId, clinicId } = owner;
  const ownerId = clinicId === null ? applicationId : deriveInstallationId(applicationId, clinicId);
  const stream = toStreamName(webhookEndpointPlacesStreams, ownerId);
  await changeStream(stream, async () => {
    const lastEvent = await log.readLast<WebhookEndpointPlacesEvent>(stream);
    const recordedPlaces = lastEvent?.data.places ?? [];
    const isExhausted = recordedPlaces.length >= MAX_ENDPOINTS;
    const takenPlaces = isExhausted ? await removeReleasedPlaces(log, recordedPlaces, context.now) : recordedPlaces;
    if (takenPlaces.length >= MAX_ENDPOINTS) {
      const message = `there are already ${MAX_ENDPOINTS} webhook endpoints; revoke one first`;
      throw new DomainError("webhook_endpoint_limit_reached", message);
    }
    const places = [...takenPlaces, { endpointId, takenAt: toInstant(context.now) }];
    const event = toNewEvent({ type: "WebhookEndpointPlaceTaken", data: { ownerId, places } }, context);
    await log.append(stream, lastEvent?.revision ?? EMPTY_STREAM, [event]);
  });
}

async function removeReleasedPlaces(
  log: EventLog,
  places: EndpointReservation[],
  now: number,
): Promise<EndpointReservation[]> {
  const isTaken = async ({ endpointId, takenAt }: EndpointReservation) => {
    try {
      const lastEvent = await log.readLast<WebhookEndpointEvent>(toStreamName(webhookEndpointStreams, endpointId));
      if (!lastEvent) return now - Date.parse(takenAt) < REGISTRATION_TIMEOUT_MS;
      // After a revocation, only a report or a summary can follow.
      if (!/(Reported|Summarized)$/.test(lastEvent.type)) return lastEvent.type !== "WebhookEndpointRevoked";
      return (await loadAggregate(log, endpointAggregate, endpointId)).state?.status !== "revoked";
    } catch (error) {
      // An unreadable endpoint keeps its place.
      if (await concernsOneStream(log, error)) return true;
      throw error;
    }
  };
  const takenFlags = await Promise.all(places.map(isTaken));
  return places.filter((_, index) => takenFlags[index]);
}
