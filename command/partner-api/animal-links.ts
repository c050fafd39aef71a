import type Koa from "koa";
import { clinicAggregate } from "../../shared/domain/clinic/clinic.ts";
import type { WithdrawalParty } from "../../shared/domain/events/consent.ts";
import type { Sandbox } from "../../shared/domain/partner/sandbox.ts";
import { requireExisting } from "../../shared/domain/preconditions.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { animalLinkRequest, linkWithdrawal } from "../../shared/partner-api/request-bodies.ts";
import { loadAggregate } from "../handling/handle.ts";
import { endLink, redeemLinkCode } from "../operations/animal-link-operations.ts";
import { resolveSandbox } from "../operations/sandbox-operations.ts";
import { parseBody } from "./errors.ts";
import { type PartnerService, readPathId, toCommandContext, type WriteState } from "./request-context.ts";

/** POST /animal-links: returns 201 with the link, also for a repeated request. */
export function linkAnimal({ log, linkCodes }: PartnerService): Koa.Middleware<WriteState> {
  return async (ctx) => {
    const { code } = parseBody(ctx, animalLinkRequest);
    const { applicationId, clinicId } = ctx.state;
    const input = { applicationId, clinicId, code, sandbox: await findSandbox(log, clinicId) };
    const context = toCommandContext(ctx.state);
    const { animal, link, statePosition } = await redeemLinkCode({ log, linkCodes }, input, context);
    const { name, species } = animal.details;
    ctx.state.logPosition = statePosition;
    ctx.status = 201;
    ctx.body = {
      ok: true,
      link: {
        id: link.linkId,
        animal: { id: animal.id, name, species },
        consent: { covers: link.covers, grantedAt: link.linkedAt },
      },
    };
  };
}

/** DELETE /animal-links/{linkId}: returns 200. A repeated request returns 404. */
export const endAnimalLink = ({ log }: PartnerService): Koa.Middleware<WriteState> =>
  endLinkFor(log, () => "application");

/** POST /animal-links/{linkId}/withdraw: ends a link of the sandbox as {@link endAnimalLink} does. */
export const withdrawSandboxLink = ({ log }: PartnerService): Koa.Middleware<WriteState> =>
  endLinkFor(log, (ctx) => parseBody(ctx, linkWithdrawal).requestedBy);

function endLinkFor(
  log: EventLog,
  readParty: (ctx: Koa.ParameterizedContext<WriteState>) => WithdrawalParty,
): Koa.Middleware<WriteState> {
  return async (ctx) => {
    const { applicationId, clinicId } = ctx.state;
    const requestedBy = readParty(ctx);
    const linkId = readPathId(ctx, "linkId");
    const input = { applicationId, clinicId, linkId, requestedBy, sandbox: await findSandbox(log, clinicId) };
    ctx.state.logPosition = await endLink(log, input, toCommandContext(ctx.state));
    ctx.body = { ok: true, link: { id: linkId } };
  };
}

async function findSandbox(log: EventLog, clinicId: string): Promise<Sandbox | null> {
  const { state: clinic } = await loadAggregate(log, clinicAggregate, clinicId);
  return (await resolveSandbox(log, requireExisting(clinic, "clinic"))).sandbox;
}
