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
import { readPathId, type WriteContext, type WriteHandler } from "./request-context.ts";

/** POST /animal-links: returns 201 with the link, also for a repeated request. */
export const linkAnimal: WriteHandler = async ({ log, linkCodes }, ctx, context) => {
  const { code } = parseBody(ctx, animalLinkRequest);
  const { applicationId, clinicId } = ctx.state;
  const input = { applicationId, clinicId, code, sandbox: await findSandbox(log, clinicId) };
  const { animal, link, statePosition } = await redeemLinkCode({ log, linkCodes }, input, context);
  const { name, species } = animal.details;
  const consent = { covers: link.covers, grantedAt: link.linkedAt };
  return {
    logPosition: statePosition,
    body: { link: { id: link.linkId, animal: { id: animal.id, name, species }, consent } },
  };
};

/** DELETE /animal-links/{linkId}: returns 200. A repeated request returns 404. */
export const endAnimalLink = endLinkFor(() => "application");

/** POST /animal-links/{linkId}/withdraw: ends a sandbox link at the request of the party in the body. Returns 200. */
export const withdrawSandboxLink = endLinkFor((ctx) => parseBody(ctx, linkWithdrawal).requestedBy);

function endLinkFor(readParty: (ctx: WriteContext) => WithdrawalParty): WriteHandler {
  return async ({ log }, ctx, context) => {
    const { applicationId, clinicId } = ctx.state;
    const requestedBy = readParty(ctx);
    const linkId = readPathId(ctx, "linkId");
    const input = { applicationId, clinicId, linkId, requestedBy, sandbox: await findSandbox(log, clinicId) };
    return { logPosition: await endLink(log, input, context), body: { link: { id: linkId } } };
  };
}

async function findSandbox(log: EventLog, clinicId: string): Promise<Sandbox | null> {
  const { state: clinic } = await loadAggregate(log, clinicAggregate, clinicId);
  return (await resolveSandbox(log, requireExisting(clinic, "clinic"))).sandbox;
}
