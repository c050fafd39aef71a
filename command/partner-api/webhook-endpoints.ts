import type Koa from "koa";
import type { z } from "zod";
import type { SecretBox } from "../../shared/auth/secret-box.ts";
import type { Clinic } from "../../shared/domain/clinic/clinic.ts";
import type { Installation } from "../../shared/domain/partner/installation.ts";
import { type Endpoint, requireOwnEndpoint } from "../../shared/domain/partner/webhook-endpoint.ts";
import { requireExisting } from "../../shared/domain/preconditions.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { parseJsonBody } from "../../shared/http/request-body.ts";
import { hasClinic, type PartnerState, toEndpointOwner } from "../../shared/partner-api/access.ts";
import { webhookEndpoint, webhookEndpointDetail } from "../../shared/partner-api/records.ts";
import {
  applicationEndpointChanges,
  applicationEndpointRequest,
  clinicEndpointChanges,
  clinicEndpointRequest,
  webhookEndpointEnabling,
} from "../../shared/partner-api/request-bodies.ts";
import type { WebhookKeySet } from "../../shared/webhooks/asymmetric-signature.ts";
import type { Decide } from "../handling/aggregate-cache.ts";
import type { Operation } from "../operations/operation.ts";
import { requestReplay } from "../operations/replay-operations.ts";
import {
  changeEndpoint,
  disableOwnEndpoint,
  type EndpointChangeRequest,
  type EndpointReference,
  enableOwnEndpoint,
  registerEndpoint,
  revokeEndpoint,
  rotateSecret,
  testEndpoint,
} from "../operations/webhook-endpoint-operations.ts";
import { checkEndpointUrl } from "./check-endpoint-url.ts";
import type { DisableFailingEndpoint } from "./disable-failing-endpoint.ts";
import { parseIdempotentRequest, toErrorDetails } from "./errors.ts";
import {
  createBodyDecider,
  type EndpointWriteState,
  readEndpointReference,
  toCommandContext,
  type WriteState,
} from "./request-context.ts";
import { toReplayRecord } from "./webhook-replays.ts";

type EndpointRequest = z.infer<typeof clinicEndpointRequest | typeof applicationEndpointRequest>;
type EndpointChangeBody = z.infer<typeof clinicEndpointChanges> | z.infer<typeof applicationEndpointChanges>;

interface EndpointDependencies {
  log: EventLog;
  decide: Decide;
  secretBox: SecretBox;
  allowsLoopback: boolean;
  dnsServers?: readonly string[] | undefined;
  webhookKeys: WebhookKeySet;
}

/** POST /webhook-endpoints: returns 201 with the signing secret, which is shown only once. */
export function createWebhookEndpoint(
  dependencies: Omit<EndpointDependencies, "decide" | "webhookKeys">,
): Koa.Middleware<EndpointWriteState> {
  return async (ctx) => {
    const schema = hasClinic(ctx.state) ? clinicEndpointRequest : applicationEndpointRequest;
    const { url: urlText, events } = parseEndpointBody<EndpointRequest>(schema, ctx.request.body);
    const url = await checkEndpointUrl(dependencies, urlText, ctx.state);
    const input = { owner: toEndpointOwner(ctx.state), url, events };
    const context = toCommandContext(ctx.state);
    const { endpoint, secret, statePosition } = await registerEndpoint(dependencies, input, context);
    ctx.state.logPosition = statePosition;
    ctx.status = 201;
    ctx.body = { ok: true, endpoint: webhookEndpoint.pick(endpoint), secret };
  };
}

/** PATCH /webhook-endpoints/{endpointId}: returns 200 with all settings, also for a repeated request. */
export function updateWebhookEndpoint(dependencies: EndpointDependencies): Koa.Middleware<EndpointWriteState> {
  const decideWithBody = createBodyDecider(dependencies.decide);
  const parseBody = parseJsonBody();
  return async (ctx) => {
    const readInput = () => readChangeRequest(dependencies, ctx);
    const change = (input: EndpointChangeRequest) => changeEndpoint(dependencies, input, toCommandContext(ctx.state));
    if (!namesClinic(ctx)) await parseBody(ctx as Koa.Context, async () => undefined);
    const { state, statePosition } = namesClinic(ctx)
      ? await decideWithBody(ctx, readInput, (request, { clinic, installation }) =>
          change({ ...request, permittedBranchIds: listPermittedBranchIds(clinic, installation) }),
        )
      : await change({ ...(await readInput()), permittedBranchIds: [] });
    ctx.state.logPosition = statePosition;
    ctx.body = { ok: true, endpoint: toEndpointDetail(requireOwnEndpoint(state, toEndpointOwner(ctx.state))) };
  };
}

function namesClinic(ctx: Koa.ParameterizedContext<EndpointWriteState>): ctx is Koa.ParameterizedContext<WriteState> {
  return hasClinic(ctx.state);
}

async function readChangeRequest(
  dependencies: EndpointDependencies,
  ctx: Koa.ParameterizedContext<PartnerState>,
): Promise<Omit<EndpointChangeRequest, "permittedBranchIds">> {
  const reference = readEndpointReference(ctx);
  const schema = hasClinic(ctx.state) ? clinicEndpointChanges : applicationEndpointChanges;
  const { url: urlText, ...otherChanges } = parseEndpointBody<EndpointChangeBody>(schema, ctx.request.body);
  const addsSignature = "asymmetricSignature" in otherChanges && otherChanges.asymmetricSignature;
  if (addsSignature && dependencies.webhookKeys.keys.length === 0) refuseAsymmetricSignature();
  const url = urlText === undefined ? undefined : await checkEndpointUrl(dependencies, urlText, ctx.state);
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
function defineChange(change: Operation<EndpointReference, Endpoint>, toRecord: (endpoint: Endpoint) => object) {
  return ({ log }: { log: EventLog }): Koa.Middleware<EndpointWriteState> =>
    async (ctx) => {
      const reference = readEndpointReference(ctx);
      const { state, statePosition } = await change(log, reference, toCommandContext(ctx.state));
      ctx.state.logPosition = statePosition;
      ctx.body = { ok: true, endpoint: toRecord(requireOwnEndpoint(state, reference.owner)) };
    };
}

export const disableWebhookEndpoint = defineChange(disableOwnEndpoint, toEndpointDetail);

/** POST /webhook-endpoints/{endpointId}/enable: returns 200, also for a repeated request. Can also request a replay. */
export function enableWebhookEndpoint({
  log,
  disableFailingEndpoint,
}: {
  log: EventLog;
  disableFailingEndpoint: DisableFailingEndpoint;
}): Koa.Middleware<EndpointWriteState> {
  return async (ctx) => {
    const reference = readEndpointReference(ctx);
    const context = toCommandContext(ctx.state);
    const replayRequest =
      ctx.request.body === undefined ? undefined : parseIdempotentRequest(ctx, webhookEndpointEnabling, 400);
    let enabling = await enableOwnEndpoint(log, reference, context);
    if (enabling.events.length === 0) {
      await disableFailingEndpoint(reference.endpointId);
      enabling = await enableOwnEndpoint(log, reference, context);
    }
    const { state, statePosition } = enabling;
    ctx.state.logPosition = statePosition;
    const endpoint = toEndpointDetail(requireOwnEndpoint(state, reference.owner));
    if (replayRequest === undefined) {
      ctx.body = { ok: true, endpoint };
      return;
    }
    const { idempotencyKey, body } = replayRequest;
    const input = { ...reference, request: { since: body.replaySince }, idempotencyKey };
    const replayResult = await requestReplay(log, input, context);
    ctx.state.logPosition = replayResult.position ?? statePosition;
    ctx.body = { ok: true, endpoint, replay: toReplayRecord(requireExisting(replayResult.initialState, "replay")) };
  };
}

export const revokeWebhookEndpoint = defineChange(revokeEndpoint, webhookEndpoint.pick);

/** POST /webhook-endpoints/{endpointId}/rotate-secret: returns 200 with the new secret, which is shown only once. */
export function rotateWebhookSecret(dependencies: {
  log: EventLog;
  secretBox: SecretBox;
}): Koa.Middleware<EndpointWriteState> {
  return async (ctx) => {
    const context = toCommandContext(ctx.state);
    const { endpoint, secret, statePosition } = await rotateSecret(dependencies, readEndpointReference(ctx), context);
    ctx.state.logPosition = statePosition;
    ctx.body = { ok: true, endpoint: webhookEndpoint.pick(endpoint), secret };
  };
}

/** POST /webhook-endpoints/{endpointId}/test: returns 202. A test event is queued. */
export function testWebhookEndpoint({ log }: { log: EventLog }): Koa.Middleware<PartnerState> {
  return async (ctx) => {
    const { deliveryId } = await testEndpoint(log, readEndpointReference(ctx), toCommandContext(ctx.state));
    ctx.status = 202;
    ctx.body = { ok: true, delivery: { id: deliveryId, status: "pending" } };
  };
}

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
  return webhookEndpointDetail.pick({ ...endpoint, headerNames: endpoint.headers.map(({ name }) => name) });
}
