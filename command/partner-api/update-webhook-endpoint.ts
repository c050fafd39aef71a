import type Koa from "koa";
import type { SecretBox } from "../../shared/auth/secret-box.ts";
import { requireOwnEndpoint } from "../../shared/domain/partner/webhook-endpoint.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { webhookEndpointChanges } from "../../shared/partner-api/request-bodies.ts";
import type { WebhookKeySet } from "../../shared/webhooks/asymmetric-signature.ts";
import { changeEndpoint } from "../operations/change-endpoint.ts";
import { checkEndpointUrl } from "./check-endpoint-url.ts";
import { parseEndpointBody } from "./parse-endpoint-body.ts";
import { readEndpointReference, toCommandContext, toEndpointDetail, type WriteState } from "./request-context.ts";

/** PATCH /webhook-endpoints/{endpointId}: returns 200 with all settings, also for a repeated request. */
export function updateWebhookEndpoint(dependencies: {
  log: EventLog;
  secretBox: SecretBox;
  allowsLoopback: boolean;
  webhookKeys: WebhookKeySet;
}): Koa.Middleware<WriteState> {
  return async (ctx) => {
    const reference = readEndpointReference(ctx);
    const { url: urlText, ...otherChanges } = parseEndpointBody(webhookEndpointChanges, ctx.request.body);
    if (otherChanges.asymmetricSignature && dependencies.webhookKeys.keys.length === 0) refuseAsymmetricSignature();
    const url = urlText === undefined ? undefined : await checkEndpointUrl(dependencies, urlText, ctx.state);
    const input = {
      ...reference,
      changes: { ...otherChanges, url },
      permittedBranchIds: listPermittedBranchIds(ctx.state),
    };
    const { state, statePosition } = await changeEndpoint(dependencies, input, toCommandContext(ctx.state));
    ctx.state.logPosition = statePosition;
    ctx.body = { ok: true, endpoint: toEndpointDetail(requireOwnEndpoint(state, reference.owner)) };
  };
}

function refuseAsymmetricSignature(): never {
  const message = "is not available, because the operator has configured no key";
  throw new ApiError(400, "validation_failed", { details: [{ path: "asymmetricSignature", message }] });
}

/** Returns the ids of the clinic's branches that the installation covers. */
function listPermittedBranchIds({ clinic, installation: { branchIds } }: WriteState): string[] {
  return clinic.branches.map(({ id }) => id).filter((id) => branchIds?.includes(id) !== false);
}
