import { randomBytes, randomUUID } from "node:crypto";
import type { SecretBox } from "../../shared/auth/secret-box.ts";
import type { Decision } from "../../shared/domain/aggregate.ts";
import { DomainError } from "../../shared/domain/domain-error.ts";
import { toStreamName } from "../../shared/domain/events/category.ts";
import { deriveInstallationId } from "../../shared/domain/events/ids.ts";
import {
  type EncryptedHeader,
  type EndpointReservation,
  type SubscribedEventType,
  type WebhookEndpointEvent,
  type WebhookEndpointPlacesEvent,
  webhookEndpointPlacesStreams,
  webhookEndpointStreams,
} from "../../shared/domain/events/partner.ts";
import type { EndpointChanges } from "../../shared/domain/partner/change-endpoint.ts";
import * as endpointChanges from "../../shared/domain/partner/change-endpoint.ts";
import * as endpoints from "../../shared/domain/partner/webhook-endpoint.ts";
import { requireExisting } from "../../shared/domain/preconditions.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { EMPTY_STREAM, type EventLog, WrongExpectedRevisionError } from "../../shared/eventstore/log.ts";
import { concernsOneStream } from "../../shared/eventstore/stream-failure.ts";
import { deriveWebhookDeliveryId } from "../../shared/webhooks/delivery-id.ts";
import { changeStream } from "../handling/change-stream.ts";
import { type CommandContext, type CommandResult, handle, loadAggregate, toNewEvent } from "../handling/handle.ts";
import type { Operation } from "./operation.ts";

/** An endpoint and its new signing secret, which is shown only once and stored encrypted. */
export interface EndpointWithSecret {
  endpoint: endpoints.Endpoint;
  secret: string;
  /** Log position of the endpoint's last event. Read models that have reached this position reflect the endpoint. */
  statePosition: bigint | undefined;
}

/**
 * Identifies an endpoint by id and owner. An endpoint of another owner is refused with `webhook_endpoint_not_found`.
 */
export interface EndpointReference {
  endpointId: string;
  owner: endpoints.EndpointOwner;
}

/** Time for which the previous secret remains in use after a rotation. */
const SECRET_OVERLAP_MS = 24 * 60 * 60 * 1000;

/**
 * Registers an endpoint. The caller must check that the URL is safe and approved.
 *
 * @throws {DomainError} `webhook_endpoint_limit_reached`
 */
export async function registerEndpoint(
  { log, secretBox }: { log: EventLog; secretBox: SecretBox },
  input: { owner: endpoints.EndpointOwner; url: string; events: SubscribedEventType[]; endpointId?: string },
  context: CommandContext,
): Promise<EndpointWithSecret> {
  const { owner, url, events, endpointId = randomUUID() } = input;
  const { secret, ...storedSecret } = await generateSecret(secretBox);
  const { applicationId, clinicId, environment } = owner;
  const registration = { endpointId, applicationId, clinicId, environment, url, events, ...storedSecret };
  const decide = endpoints.registerEndpoint(registration);
  const ownerContext = toOwnerContext(context, owner);
  await reserveEndpointPlace(log, { owner, endpointId }, ownerContext);
  const { state, statePosition } = await handle(log, endpoints.endpointAggregate, endpointId, decide, ownerContext);
  return { endpoint: endpoints.requireOwnEndpoint(state, owner), secret, statePosition };
}

/**
 * Issues a new signing secret for an endpoint.
 *
 * @param input.isLeaked if true, the previous secret becomes invalid immediately instead of after 24 hours
 * @throws {DomainError} `concurrent_rotation` if the endpoint was changed concurrently; `webhook_endpoint_revoked`
 */
export async function rotateSecret(
  { log, secretBox }: { log: EventLog; secretBox: SecretBox },
  input: EndpointReference & { isLeaked?: boolean },
  context: CommandContext,
): Promise<EndpointWithSecret> {
  const { secret, ...storedSecret } = await generateSecret(secretBox);
  const previousExpiresAt = toInstant(context.now + (input.isLeaked ? 0 : SECRET_OVERLAP_MS));
  const decide = endpoints.rotateSecret({ ...storedSecret, previousExpiresAt });
  try {
    const { state, statePosition } = await handleOwnEndpoint(log, input, decide, context, "throw");
    return { endpoint: endpoints.requireOwnEndpoint(state, input.owner), secret, statePosition };
  } catch (error) {
    if (!(error instanceof WrongExpectedRevisionError)) throw error;
    throw new DomainError("concurrent_rotation", "the endpoint was changed concurrently");
  }
}

function defineOperation(
  decide: Decision<endpoints.Endpoint, WebhookEndpointEvent>,
): Operation<EndpointReference, endpoints.Endpoint> {
  return (log, input, context) => handleOwnEndpoint(log, input, decide, context);
}

/** Stops deliveries to an endpoint until the operator enables the endpoint again. */
export const disableEndpoint = defineOperation(endpoints.disableEndpoint("operator"));

export const enableEndpoint = defineOperation(endpoints.enableEndpoint);

/** Stops deliveries to an endpoint, at the request of its partner, until the endpoint is enabled again. */
export const disableOwnEndpoint = defineOperation(endpoints.disableEndpoint("partner"));

/** Resumes deliveries to a disabled endpoint at the request of its partner, unless the operator disabled it. */
export const enableOwnEndpoint = defineOperation(endpoints.enableOwnEndpoint);

/** Revokes an endpoint permanently. Revoking a revoked endpoint changes nothing. */
export const revokeEndpoint = defineOperation(endpoints.revokeEndpoint);

/**
 * Sends a test event to an endpoint. The test event is delivered like any other event. The test event has its own
 * stream, because the endpoint does not change.
 *
 * @throws {DomainError} `webhook_endpoint_disabled`, `webhook_endpoint_revoked`
 */
export async function testEndpoint(
  log: EventLog,
  { endpointId, owner }: EndpointReference,
  context: CommandContext,
): Promise<{ events: WebhookEndpointEvent[]; position: bigint; deliveryId: string }> {
  const { state } = await loadAggregate(log, endpoints.endpointAggregate, endpointId);
  const testId = randomUUID();
  const events = endpoints.testEndpoint(testId)(endpoints.requireOwnEndpoint(state, owner));
  const ownerContext = toOwnerContext(context, owner);
  // The id of the event is that of the test, so the id of the delivery is known before the event is delivered.
  const newEvents = events.map((event) => ({ ...toNewEvent(event, ownerContext), id: testId }));
  const position = await log.append(
    toStreamName(endpoints.endpointAggregate.category, testId),
    EMPTY_STREAM,
    newEvents,
  );
  return { events, position, deliveryId: deriveWebhookDeliveryId(testId, endpointId) };
}

/**
 * Finds an endpoint regardless of its owner. Only for operators, because partners may change only their own endpoints.
 *
 * @throws {DomainError} `webhook_endpoint_not_found`
 */
export async function findEndpoint(log: EventLog, endpointId: string): Promise<EndpointReference> {
  const { state } = await loadAggregate(log, endpoints.endpointAggregate, endpointId);
  const { applicationId, clinicId, environment } = requireExisting(state, "webhook_endpoint");
  return { endpointId, owner: { applicationId, clinicId, environment } };
}

/**
 * Requested changes of an endpoint. Header values are in plain text. The changes may name only the permitted branches.
 */
export interface EndpointChangeRequest extends EndpointReference {
  changes: EndpointChanges;
  permittedBranchIds: readonly string[];
}

/**
 * Changes settings of an endpoint. The caller must check that the URL is safe and approved.
 *
 * @throws {DomainError} `webhook_endpoint_not_found`, `webhook_endpoint_revoked`, `validation_failed`
 */
export async function changeEndpoint(
  { log, secretBox }: { log: EventLog; secretBox: SecretBox },
  { changes, permittedBranchIds, ...reference }: EndpointChangeRequest,
  context: CommandContext,
): Promise<CommandResult<endpoints.Endpoint>> {
  const { headers } = changes;
  const encryptedHeaders = headers && (await encryptHeaders({ log, secretBox }, headers, reference));
  const decide = endpointChanges.changeEndpoint({ ...changes, headers: encryptedHeaders }, permittedBranchIds);
  return handleOwnEndpoint(log, reference, decide, context);
}

/**
 * Encrypts the values of headers. A value that the endpoint already has keeps its ciphertext, so that repeating a
 * request changes nothing. A value that was encrypted with a former key is encrypted again.
 */
async function encryptHeaders(
  { log, secretBox }: { log: EventLog; secretBox: SecretBox },
  headers: Readonly<Record<string, string | null>>,
  { endpointId, owner }: EndpointReference,
): Promise<Record<string, string | null>> {
  const { state } = await loadAggregate(log, endpoints.endpointAggregate, endpointId);
  const { headers: storedHeaders } = endpoints.requireOwnEndpoint(state, owner);
  const entries = Object.entries(headers).map(async ([name, value]) => {
    if (value === null) return [name, null];
    const storedHeader = storedHeaders.find((header) => header.name === name);
    const isStored = storedHeader && (await hasValue(secretBox, storedHeader, value));
    return [name, isStored ? storedHeader.encryptedValue : await secretBox.seal(value)];
  });
  return Object.fromEntries(await Promise.all(entries));
}

/** Returns true if a stored header has the value, and its value was encrypted with the current key. */
async function hasValue(secretBox: SecretBox, { encryptedValue }: EncryptedHeader, value: string): Promise<boolean> {
  return secretBox.isSealedWithCurrentKey(encryptedValue) && (await secretBox.open(encryptedValue)) === value;
}

/** Changes an endpoint for its owner. An endpoint of another owner is refused with `webhook_endpoint_not_found`. */
function handleOwnEndpoint(
  log: EventLog,
  { endpointId, owner }: EndpointReference,
  decide: Decision<endpoints.Endpoint, WebhookEndpointEvent>,
  context: CommandContext,
  onConflict: "retry" | "throw" = "retry",
): Promise<CommandResult<endpoints.Endpoint>> {
  const decideForOwner = (state: endpoints.Endpoint | undefined) => decide(endpoints.requireOwnEndpoint(state, owner));
  const ownerContext = toOwnerContext(context, owner);
  return handle(log, endpoints.endpointAggregate, endpointId, decideForOwner, ownerContext, onConflict);
}

export function toOwnerContext(
  context: CommandContext,
  { clinicId, environment }: endpoints.EndpointOwner,
): CommandContext {
  return { ...context, clinicId, environment };
}

async function generateSecret(secretBox: SecretBox) {
  const secret = `whsec_${randomBytes(32).toString("base64")}`;
  return { secret, secretId: randomUUID(), encryptedSecret: await secretBox.seal(secret) };
}

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
  { owner, endpointId }: { owner: endpoints.EndpointOwner; endpointId: string },
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
      return (await loadAggregate(log, endpoints.endpointAggregate, endpointId)).state?.status !== "revoked";
    } catch (error) {
      // An unreadable endpoint keeps its place.
      if (await concernsOneStream(log, error)) return true;
      throw error;
    }
  };
  const takenFlags = await Promise.all(places.map(isTaken));
  return places.filter((_, index) => takenFlags[index]);
}
