import type { z } from "zod";
import type { Clinic } from "../../shared/domain/clinic/clinic.ts";
import { applicationAggregate } from "../../shared/domain/partner/application.ts";
import type { Installation } from "../../shared/domain/partner/installation.ts";
import { type Endpoint, requireOwnEndpoint } from "../../shared/domain/partner/webhook-endpoint.ts";
import type { Replay } from "../../shared/domain/partner/webhook-replay.ts";
import { requireExisting } from "../../shared/domain/preconditions.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { hasClinic, type PartnerState, toEndpointOwner } from "../../shared/partner-api/access.ts";
import * as records from "../../shared/partner-api/records.ts";
import * as bodies from "../../shared/partner-api/request-bodies.ts";
import {
  checkDestination,
  type DestinationOptions,
  UnsafeDestinationError,
} from "../../shared/webhooks/destination.ts";
import { loadAggregate } from "../handling/handle.ts";
import type { Operation } from "../operations/operation.ts";
import { replayDelivery, requestReplay } from "../operations/replay-operations.ts";
import * as operations from "../operations/webhook-endpoint-operations.ts";
import { parseIdempotentRequest, toErrorDetails } from "./errors.ts";
import {
  decideAtClinic,
  type PartnerService,
  readEndpointReference,
  readPathId,
  type WriteContext,
  type WriteHandler,
  type WriteResult,
} from "./request-context.ts";

type EndpointRequest = z.infer<typeof bodies.clinicEndpointRequest | typeof bodies.applicationEndpointRequest>;
type EndpointChangeBody =
  | z.infer<typeof bodies.clinicEndpointChanges>
  | z.infer<typeof bodies.applicationEndpointChanges>;

/** POST /webhook-endpoints: returns 201 with the signing secret, which is shown only once. */
export const createWebhookEndpoint: WriteHandler = async (service, ctx, context) => {
  const schema = hasClinic(ctx.state) ? bodies.clinicEndpointRequest : bodies.applicationEndpointRequest;
  const { url: urlText, events } = parseEndpointBody<EndpointRequest>(schema, ctx.request.body);
  const url = await checkEndpointUrl(service, urlText, ctx.state);
  const input = { owner: toEndpointOwner(ctx.state), url, events };
  return toSecretResult(await operations.registerEndpoint(service, input, context));
};

/** PATCH /webhook-endpoints/{endpointId}: returns 200 with all settings, also for a repeated request. */
export const updateWebhookEndpoint: WriteHandler = async (service, ctx, context) => {
  const request = await readChangeRequest(service, ctx);
  const change = (permittedBranchIds: string[]) =>
    operations.changeEndpoint(service, { ...request, permittedBranchIds }, context);
  const { state, statePosition } = hasClinic(ctx.state)
    ? await decideAtClinic(service.decide, ctx.state, ({ clinic, installation }) =>
        change(listPermittedBranchIds(clinic, installation)),
      )
    : await change([]);
  return { logPosition: statePosition, body: { endpoint: toEndpointDetail(requireOwnEndpoint(state, request.owner)) } };
};

async function readChangeRequest(
  service: PartnerService,
  ctx: WriteContext,
): Promise<Omit<operations.EndpointChangeRequest, "permittedBranchIds">> {
  const reference = readEndpointReference(ctx);
  const schema = hasClinic(ctx.state) ? bodies.clinicEndpointChanges : bodies.applicationEndpointChanges;
  const { url: urlText, ...otherChanges } = parseEndpointBody<EndpointChangeBody>(schema, ctx.request.body);
  const addsSignature = "asymmetricSignature" in otherChanges && otherChanges.asymmetricSignature;
  if (addsSignature && service.webhookKeys.keys.length === 0) refuseAsymmetricSignature();
  const url = urlText === undefined ? undefined : await checkEndpointUrl(service, urlText, ctx.state);
  return { ...reference, changes: { ...otherChanges, url } };
}

function refuseAsymmetricSignature(): never {
  const message = "is not available, because the operator has configured no key";
  throw new ApiError(400, "validation_failed", { details: [{ path: "asymmetricSignature", message }] });
}

function listPermittedBranchIds(clinic: Clinic, { branchIds }: Installation): string[] {
  return clinic.branches.map(({ id }) => id).filter((id) => branchIds?.includes(id) !== false);
}

/** Defines a change of an endpoint that needs no body. The response is 200, also for a repeated request. */
function defineChange(
  change: Operation<operations.EndpointReference, Endpoint>,
  toRecord: (endpoint: Endpoint) => object,
): WriteHandler {
  return async ({ log }, ctx, context) => {
    const reference = readEndpointReference(ctx);
    const { state, statePosition } = await change(log, reference, context);
    return { logPosition: statePosition, body: { endpoint: toRecord(requireOwnEndpoint(state, reference.owner)) } };
  };
}

export const disableWebhookEndpoint = defineChange(operations.disableOwnEndpoint, toEndpointDetail);

/** POST /webhook-endpoints/{endpointId}/enable: returns 200, also if repeated. A body also requests a replay. */
export const enableWebhookEndpoint: WriteHandler = async ({ log, disableFailingEndpoint }, ctx, context) => {
  const reference = readEndpointReference(ctx);
  const replayRequest =
    ctx.request.body === undefined ? undefined : parseIdempotentRequest(ctx, bodies.webhookEndpointEnabling, 400);
  let enabling = await operations.enableOwnEndpoint(log, reference, context);
  if (enabling.events.length === 0) {
    await disableFailingEndpoint(reference.endpointId);
    enabling = await operations.enableOwnEndpoint(log, reference, context);
  }
  const { state, statePosition } = enabling;
  const endpoint = toEndpointDetail(requireOwnEndpoint(state, reference.owner));
  if (replayRequest === undefined) return { logPosition: statePosition, body: { endpoint } };
  const { idempotencyKey, body } = replayRequest;
  const input = { ...reference, request: { since: body.replaySince }, idempotencyKey };
  const { initialState, position = statePosition } = await requestReplay(log, input, context);
  const replay = toReplayRecord(requireExisting(initialState, "replay"));
  return { logPosition: position, body: { endpoint, replay } };
};

export const revokeWebhookEndpoint = defineChange(operations.revokeEndpoint, records.webhookEndpoint.pick);

/** POST /webhook-endpoints/{endpointId}/rotate-secret: returns 200 with the new secret, which is shown only once. */
export const rotateWebhookSecret: WriteHandler = async (service, ctx, context) =>
  toSecretResult(await operations.rotateSecret(service, readEndpointReference(ctx), context));

function toSecretResult({ endpoint, secret, statePosition }: operations.EndpointWithSecret): WriteResult {
  return { logPosition: statePosition, body: { endpoint: records.webhookEndpoint.pick(endpoint), secret } };
}

/** POST /webhook-endpoints/{endpointId}/test: returns 202. A test event is queued. */
export const testWebhookEndpoint: WriteHandler = async ({ log }, ctx, context) => {
  const { deliveryId } = await operations.testEndpoint(log, readEndpointReference(ctx), context);
  return { body: { delivery: { id: deliveryId, status: "pending" } } };
};

/**
 * Parses the body of a request that registers or changes an endpoint.
 *
 * @throws {ApiError} 400 `invalid_destination` if only the URL is invalid, otherwise 400 `validation_failed`
 */
function parseEndpointBody<Body>(schema: z.ZodType<Body>, body: unknown): Body {
  const parseResult = schema.safeParse(body);
  if (parseResult.success) return parseResult.data;
  const details = toErrorDetails(parseResult.error);
  const code = details.every(({ path }) => path === "url") ? "invalid_destination" : "validation_failed";
  throw new ApiError(400, code, { details });
}

function toEndpointDetail(endpoint: Endpoint) {
  return records.webhookEndpointDetail.pick({ ...endpoint, headerNames: endpoint.headers.map(({ name }) => name) });
}

/** POST …/deliveries/{deliveryId}/replay: returns 202. The replay is queued. */
export const replayWebhookDelivery: WriteHandler = async (service, ctx, context) => {
  const deliveryId = readPathId(ctx, "deliveryId");
  await replayDelivery(service, { ...readEndpointReference(ctx), deliveryId }, context);
  return { body: { delivery: { id: deliveryId, status: "pending" } } };
};

/** POST /webhook-endpoints/{endpointId}/replays: returns 202, also for a repeated request. */
export const replayWebhookDeliveries: WriteHandler = async ({ log }, ctx, context) => {
  const reference = readEndpointReference(ctx);
  const { body: request, idempotencyKey } = parseIdempotentRequest(ctx, bodies.webhookReplayRequest, 400);
  const input = { ...reference, request, idempotencyKey };
  const { initialState, events, statePosition } = await requestReplay(log, input, context);
  if (events.length === 0) ctx.set("Idempotent-Replayed", "true");
  return { logPosition: statePosition, body: { replay: toReplayRecord(requireExisting(initialState, "replay")) } };
};

function toReplayRecord(replay: Replay): records.WebhookReplayRecord {
  const progress = { status: "pending" as const, replayedCount: 0, notReplayedCount: 0, finishedAt: null };
  return records.webhookReplay.pick({ ...replay, ...progress });
}

/**
 * Checks that deliveries may be sent to a URL. The destination must be safe. In production, the operator must also have
 * approved the origin. Returns the normalized URL.
 *
 * @throws {ApiError} 400 `invalid_destination`, `destination_not_approved` or `unsafe_destination`
 */
async function checkEndpointUrl(
  { log, ...options }: DestinationOptions & { log: EventLog },
  url: string,
  state: PartnerState,
): Promise<string> {
  if (!URL.canParse(url)) throw createUrlError("invalid_destination", "must be a URL");
  if (state.environment === "production") {
    const { state: application } = await loadAggregate(log, applicationAggregate, state.applicationId);
    if (!application?.webhookOrigins.includes(new URL(url).origin))
      throw createUrlError("destination_not_approved", "has an origin that the operator has not approved");
  }
  try {
    return (await checkDestination(url, options)).url.href;
  } catch (error) {
    if (!(error instanceof UnsafeDestinationError)) throw error;
    const code = error.code === "malformed_url" ? "invalid_destination" : "unsafe_destination";
    throw createUrlError(code, error.message, error);
  }
}

function createUrlError(code: string, message: string, cause?: unknown): ApiError {
  return new ApiError(400, code, { details: [{ path: "url", message }], cause });
}
