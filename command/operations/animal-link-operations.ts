import { type Animal, animalAggregate } from "../../shared/domain/clinic/animal.ts";
import {
  type AnimalConsent,
  type AnimalLink,
  animalConsentAggregate,
  animalLinkCodeAggregate,
  decideCreateLinkCode,
  decideRedeemLinkCode,
  decideWithdrawLink,
  findAnimalLink,
  type LinkCode,
  refuseLinkCode,
} from "../../shared/domain/clinic/animal-consent.ts";
import { refuseSandbox } from "../../shared/domain/clinic/clinic.ts";
import { customerAggregate } from "../../shared/domain/clinic/customer.ts";
import { normalizeLinkCode } from "../../shared/domain/clinic/link-code.ts";
import { DomainError } from "../../shared/domain/domain-error.ts";
import type { AnimalLinkCodeEvent, ConsentCoverage, WithdrawalParty } from "../../shared/domain/events/consent.ts";
import { deriveInstallationId } from "../../shared/domain/events/ids.ts";
import { installationAggregate, requireApproved } from "../../shared/domain/partner/installation.ts";
import { findFixtureAnimal, type Sandbox } from "../../shared/domain/partner/sandbox.ts";
import { listSandboxLinks } from "../../shared/domain/partner/sandbox-link-code.ts";
import { isErased, requireNotErased } from "../../shared/domain/personal-data/erasure.ts";
import { requireExisting } from "../../shared/domain/preconditions.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { type CommandContext, type CommandResult, handle, loadAggregate } from "../handling/handle.ts";
import type { LinkCodes } from "./link-codes.ts";
import { createClinicContext, loadClinicObject, loadCommandClinic, loadState, type Operation } from "./operation.ts";

/** The application and the clinic of a link. */
interface LinkOwner {
  applicationId: string;
  clinicId: string;
}

/**
 * Creates a link code for an application. The clinic gives the code to the animal's owner, and the owner gives it to
 * the application.
 *
 * @throws {DomainError} if the animal does not belong to the clinic, its owner is erased, or the clinic has not
 *   approved the application
 */
export async function createLinkCode(
  { log, linkCodes }: { log: EventLog; linkCodes: LinkCodes },
  input: LinkOwner & { animalId: string; covers: ConsentCoverage; validityMs: number },
  context: CommandContext,
): Promise<CommandResult<AnimalConsent> & { code: string; expiresAt: string }> {
  const { validityMs, ...request } = input;
  const { animalId, applicationId, clinicId } = request;
  const { clinic, clinicContext } = await loadCommandClinic(log, clinicId, context);
  refuseSandbox(clinic);
  const { customerId } = await loadClinicObject(log, animalAggregate, animalId, clinicId, "animal");
  requireNotErased(await loadClinicObject(log, customerAggregate, customerId, clinicId, "customer"), "customer");
  requireApproved(await loadState(log, installationAggregate, deriveInstallationId(applicationId, clinicId)));
  const { code, linkId } = linkCodes.generate();
  const expiresAt = toInstant(context.now + validityMs);
  const decide = decideCreateLinkCode({ ...request, linkId, expiresAt }, context.now);
  const result = await handle(log, animalConsentAggregate, animalId, decide, clinicContext);
  // If the pointer is missing after a crash, nobody knows the code.
  const assigned: AnimalLinkCodeEvent = { type: "AnimalLinkCodeAssigned", data: { linkId, animalId } };
  await handle(log, animalLinkCodeAggregate, linkId, () => [assigned], clinicContext);
  return { ...result, code, expiresAt };
}

/** A link with its animal. */
export interface LinkedAnimal {
  animal: Animal;
  link: AnimalLink;
  statePosition: bigint | undefined;
}

/**
 * Redeems a link code for an application. Repeating the redemption returns the same link.
 *
 * @param input.sandbox sandbox of the application; null in production
 * @throws {DomainError} `link_code_invalid`, also if the code belongs to another clinic or application
 */
export async function redeemLinkCode(
  { log, linkCodes }: { log: EventLog; linkCodes: LinkCodes },
  input: LinkOwner & { code: string; sandbox: Sandbox | null },
  context: CommandContext,
): Promise<LinkedAnimal> {
  const { applicationId, clinicId, code, sandbox } = input;
  const target = sandbox
    ? listSandboxLinks(sandbox).find((link) => normalizeLinkCode(link.code) === normalizeLinkCode(code))
    : await findCodeTarget(log, linkCodes.listLinkIds(code));
  if (!target) return refuseLinkCode();
  const { animalId, linkId, sandboxCode } = target;
  const animal = await loadLinkedAnimal(log, animalId, sandbox);
  if (animal?.clinicId !== clinicId) return refuseLinkCode();
  const { customerId } = animal;
  const redemption = {
    ...{ animalId, clinicId, customerId, applicationId, linkId, sandboxCode },
    isOwnerErased: await isOwnerErased(log, animal, sandbox),
    sandboxGeneration: sandbox?.generation ?? 0,
  };
  const decide = decideRedeemLinkCode(redemption, context.now);
  const { state, statePosition } = await handle(log, animalConsentAggregate, animalId, decide, context);
  return { animal, link: requireExisting(findAnimalLink(state, input), "animal_link"), statePosition };
}

interface CodeTarget {
  animalId: string;
  linkId: string;
  sandboxCode: LinkCode | null;
}

async function findCodeTarget(log: EventLog, linkIds: readonly string[]): Promise<CodeTarget | undefined> {
  for (const linkId of linkIds) {
    const { state } = await loadAggregate(log, animalLinkCodeAggregate, linkId);
    if (state) return { ...state, linkId, sandboxCode: null };
  }
  return undefined;
}

async function loadLinkedAnimal(log: EventLog, animalId: string, sandbox: Sandbox | null) {
  return sandbox ? findFixtureAnimal(sandbox, animalId) : loadState(log, animalAggregate, animalId);
}

/** The animals of a sandbox's fixture have no owner in the log. */
async function isOwnerErased(log: EventLog, { customerId }: Animal, sandbox: Sandbox | null): Promise<boolean> {
  const customer = sandbox ? undefined : await loadState(log, customerAggregate, customerId);
  return customer !== undefined && isErased(customer);
}

/**
 * Withdraws the consent to an application, for the clinic or the owner. Takes effect within a second. Also possible at a
 * closed or deleted clinic.
 *
 * @throws {DomainError} `animal_link_not_found`
 */
export const withdrawLink: Operation<
  LinkOwner & { animalId: string; requestedBy: WithdrawalParty },
  AnimalConsent
> = async (log, { animalId, ...withdrawal }, context) => {
  const clinicContext = await createClinicContext(log, withdrawal.clinicId, context);
  const decide = decideWithdrawLink({ ...withdrawal, linkId: null });
  return handle(log, animalConsentAggregate, animalId, decide, clinicContext);
};

/**
 * Ends a link at the request of its application. In a sandbox, the application can also rehearse another party's request.
 *
 * @param input.linkId undefined if the request has no valid id
 * @throws {DomainError} `animal_link_not_found`
 */
export async function endLink(
  log: EventLog,
  input: LinkOwner & { linkId: string | undefined; sandbox: Sandbox | null; requestedBy: WithdrawalParty },
  context: CommandContext,
): Promise<bigint | undefined> {
  const { linkId, sandbox, requestedBy, ...owner } = input;
  const target = sandbox
    ? listSandboxLinks(sandbox).find((link) => link.linkId === linkId)
    : await findCodeTarget(log, linkId === undefined ? [] : [linkId]);
  const animal = target && (await loadLinkedAnimal(log, target.animalId, sandbox));
  if (!animal || (await isOwnerErased(log, animal, sandbox)))
    throw new DomainError("animal_link_not_found", "there is no such link");
  const decide = decideWithdrawLink({ ...owner, linkId: target.linkId, requestedBy });
  return (await handle(log, animalConsentAggregate, animal.id, decide, context)).statePosition;
}
