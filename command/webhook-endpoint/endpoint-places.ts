import { randomUUID } from "node:crypto";
import { streamName } from "../../shared/events/category.ts";
import { installationId } from "../../shared/events/ids.ts";
import {
  type EndpointPlace,
  type WebhookEndpointPlacesEvent,
  webhookEndpointPlacesCategory,
} from "../../shared/events/partner.ts";
import { type EventLog, WrongExpectedRevision } from "../../shared/eventstore/log.ts";
import { toInstant } from "../../shared/time/rfc3339.ts";
import { type CommandContext, DomainError, load, toMetadata } from "../handle.ts";
import type { EndpointOwner } from "./decide-endpoint.ts";
import { endpointAggregate } from "./endpoint.ts";

/** Endpoints that an application may have at a clinic, revoked ones not counted. */
export const MOST_ENDPOINTS = 50;

/** A place whose endpoint is not there after so long is free again: its registration was cut short. Milliseconds. */
const REGISTERED_WITHIN = 60_000;

/** A race that is lost this often in a row is given up; of registrations at once, one wins each time. */
const ATTEMPTS = 20;

/**
 * Takes one of the places that an application has for endpoints at a clinic. The endpoint is registered afterwards, in
 * a stream of its own; the places of revoked endpoints are found when all are taken.
 *
 * @throws {DomainError} `webhook_endpoint_limit_reached`
 * @throws {WrongExpectedRevision} where others were first again and again
 */
export async function takePlace(
  log: EventLog,
  { owner, endpointId }: { owner: EndpointOwner; endpointId: string },
  context: CommandContext,
): Promise<void> {
  const id = installationId(owner.applicationId, owner.clinicId);
  const stream = streamName(webhookEndpointPlacesCategory, id);
  const takenAt = toInstant(context.now);
  for (let attempt = 1; ; attempt += 1) {
    const last = await log.last<WebhookEndpointPlacesEvent>(stream);
    const known = last?.data.places ?? [];
    const taken = known.length < MOST_ENDPOINTS ? known : await stillTaken(log, known, context.now);
    if (taken.length >= MOST_ENDPOINTS) {
      const message = `there are ${MOST_ENDPOINTS} webhook endpoints already: revoke one first`;
      throw new DomainError("webhook_endpoint_limit_reached", message);
    }
    const data = { installationId: id, places: [...taken, { endpointId, takenAt }] };
    const event = { type: "WebhookEndpointPlaceTaken", data } as const;
    try {
      const proposed = { id: randomUUID(), event, metadata: toMetadata(context) };
      await log.append(stream, last?.revision ?? -1n, [proposed]);
      return;
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision) || attempt === ATTEMPTS) throw error;
    }
  }
}

async function stillTaken(log: EventLog, places: EndpointPlace[], now: number): Promise<EndpointPlace[]> {
  const isTaken = async ({ endpointId, takenAt }: EndpointPlace) => {
    const { state } = await load(log, endpointAggregate, endpointId);
    return state ? state.status !== "revoked" : now - Date.parse(takenAt) < REGISTERED_WITHIN;
  };
  const taken = await Promise.all(places.map(isTaken));
  return places.filter((_, index) => taken[index]);
}
