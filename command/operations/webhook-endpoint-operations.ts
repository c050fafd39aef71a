import { randomBytes, randomUUID } from "node:crypto";
import type { SecretBox } from "../../shared/auth/secret-box.ts";
import type { Decision } from "../../shared/domain/aggregate.ts";
import { DomainError } from "../../shared/domain/domain-error.ts";
import { webhookDeliveryId } from "../../shared/domain/events/ids.ts";
import type { WebhookEndpointEvent, WebhookEventType } from "../../shared/domain/events/partner.ts";
import {
  createNotReplayableError,
  decideReplay,
  deliveryAggregate,
} from "../../shared/domain/partner/webhook-delivery.ts";
import {
  decideDisableEndpoint,
  decideEnableEndpoint,
  decideRegisterEndpoint,
  decideRevokeEndpoint,
  decideRotateSecret,
  decideTestEndpoint,
  type Endpoint,
  type EndpointOwner,
  endpointAggregate,
  requireExistingEndpoint,
  requireOwnEndpoint,
} from "../../shared/domain/partner/webhook-endpoint.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { type EventLog, WrongExpectedRevisionError } from "../../shared/eventstore/log.ts";
import { type CommandContext, type Handled, handle, load } from "../handling/handle.ts";
import { reserveEndpoint } from "./endpoint-quota.ts";

/** An endpoint and its new signing secret, which is shown only once and stored encrypted. */
export interface EndpointWithSecret {
  endpoint: Endpoint;
  secret: string;
  /** Log position that a read must have reached to reflect the endpoint. */
  seen: bigint | undefined;
}

/**
 * Identifies an endpoint by its id and owner. An endpoint of another owner is refused with
 * `webhook_endpoint_not_found`.
 */
export interface EndpointOf {
  endpointId: string;
  owner: EndpointOwner;
}

/** Time for which the previous secret also signs after a rotation. Milliseconds. */
const SECRET_OVERLAP_MS = 24 * 60 * 60 * 1000;

/**
 * Registers an endpoint. The caller must check that the URL is safe and approved.
 *
 * @throws {DomainError} `webhook_endpoint_limit_reached`
 */
export async function registerEndpoint(
  dependencies: { log: EventLog; secretBox: SecretBox },
  input: { owner: EndpointOwner; url: string; events: WebhookEventType[]; endpointId?: string },
  context: CommandContext,
): Promise<EndpointWithSecret> {
  const { owner, url, events, endpointId = randomUUID() } = input;
  const { secret, ...kept } = await newSecret(dependencies.secretBox);
  const { applicationId, clinicId, environment } = owner;
  const registration = { endpointId, applicationId, clinicId, environment, url, events, ...kept };
  const decide = decideRegisterEndpoint(registration);
  const ofOwner = within(context, owner);
  await reserveEndpoint(dependencies.log, { owner, endpointId }, ofOwner);
  const { state, seen } = await handle(dependencies.log, endpointAggregate, endpointId, decide, ofOwner);
  return { endpoint: requireOwnEndpoint(state, owner), secret, seen };
}

/**
 * Issues a new signing secret for an endpoint.
 *
 * @param input.leaked stops signing with the previous secret immediately instead of after 24 hours
 * @throws {DomainError} `concurrent_rotation` if the endpoint was changed concurrently; `webhook_endpoint_revoked`
 */
export async function rotateSecret(
  dependencies: { log: EventLog; secretBox: SecretBox },
  input: EndpointOf & { leaked?: boolean },
  context: CommandContext,
): Promise<EndpointWithSecret> {
  const { secret, ...kept } = await newSecret(dependencies.secretBox);
  const previousExpiresAt = toInstant(context.now + (input.leaked ? 0 : SECRET_OVERLAP_MS));
  const decide = decideRotateSecret({ ...kept, previousExpiresAt });
  try {
    const { state, seen } = await change(dependencies.log, input, decide, context, "throw");
    return { endpoint: requireOwnEndpoint(state, input.owner), secret, seen };
  } catch (error) {
    if (!(error instanceof WrongExpectedRevisionError)) throw error;
    throw new DomainError("concurrent_rotation", "the endpoint was changed concurrently");
  }
}

/** Stops deliveries to an endpoint until it is enabled again. */
export function disableEndpoint(
  log: EventLog,
  input: EndpointOf,
  context: CommandContext,
): Promise<Handled<Endpoint>> {
  return change(log, input, decideDisableEndpoint("operator"), context);
}

/** Resumes deliveries to a disabled endpoint. */
export function enableEndpoint(
  log: EventLog,
  input: EndpointOf,
  context: CommandContext,
): Promise<Handled<Endpoint>> {
  return change(log, input, decideEnableEndpoint(), context);
}

/** Revokes an endpoint permanently. Repeating it changes nothing. */
export function revokeEndpoint(
  log: EventLog,
  input: EndpointOf,
  context: CommandContext,
): Promise<Handled<Endpoint>> {
  return change(log, input, decideRevokeEndpoint(), context);
}

/**
 * Sends a test event to an endpoint. It is delivered like any other event.
 *
 * @returns also the id of the test's delivery
 * @throws {DomainError} `webhook_endpoint_disabled`, `webhook_endpoint_revoked`
 */
export async function testEndpoint(
  log: EventLog,
  input: EndpointOf,
  context: CommandContext,
): Promise<Handled<Endpoint> & { deliveryId: string }> {
  const testId = randomUUID();
  const handled = await change(log, input, decideTestEndpoint(testId), context);
  return { ...handled, deliveryId: webhookDeliveryId(testId, input.endpointId) };
}

/**
 * Finds an endpoint with its owner, for an operator, who may change all endpoints.
 *
 * @throws {DomainError} `webhook_endpoint_not_found`
 */
export async function findEndpoint(log: EventLog, endpointId: string): Promise<EndpointOf> {
  const { applicationId, clinicId, environment } = requireExistingEndpoint(
    (await load(log, endpointAggregate, endpointId)).state,
  );
  return { endpointId, owner: { applicationId, clinicId, environment } };
}

/**
 * Requests the replay of a failed or skipped delivery of an active endpoint.
 *
 * @param input.deliveryId undefined if the request has no valid id
 * @throws {DomainError} `delivery_not_replayable`, also if another replay was requested concurrently
 */
export async function replayDelivery(
  log: EventLog,
  input: EndpointOf & { deliveryId: string | undefined },
  context: CommandContext,
): Promise<void> {
  const { endpointId, owner, deliveryId } = input;
  const { state } = await load(log, endpointAggregate, endpointId);
  if (requireOwnEndpoint(state, owner).status !== "active" || deliveryId === undefined)
    throw createNotReplayableError();
  const ofOwner = within(context, owner);
  const once = { onLostRace: "throw" } as const;
  try {
    await handle(log, deliveryAggregate, deliveryId, decideReplay(endpointId), ofOwner, once);
  } catch (error) {
    throw error instanceof WrongExpectedRevisionError ? createNotReplayableError() : error;
  }
}

function change(
  log: EventLog,
  { endpointId, owner }: EndpointOf,
  decide: Decision<Endpoint, WebhookEndpointEvent>,
  context: CommandContext,
  onLostRace: "retry" | "throw" = "retry",
): Promise<Handled<Endpoint>> {
  const decideOwn = (state: Endpoint | undefined) => decide(requireOwnEndpoint(state, owner));
  const ofOwner = within(context, owner);
  return handle(log, endpointAggregate, endpointId, decideOwn, ofOwner, { onLostRace });
}

function within(context: CommandContext, { clinicId, environment }: EndpointOwner): CommandContext {
  return { ...context, clinicId, environment };
}

/** Generates a Standard Webhooks secret and its encrypted form for the log. */
async function newSecret(box: SecretBox) {
  const secret = `whsec_${randomBytes(32).toString("base64")}`;
  return { secret, secretId: randomUUID(), encryptedSecret: await box.seal(secret) };
}
