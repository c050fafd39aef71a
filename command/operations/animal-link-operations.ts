import { type Animal, animalAggregate } from "../../shared/domain/clinic/animal.ts";
import * as consents from "../../shared/domain/clinic/animal-consent.ts";
import { refuseSandbox } from "../../shared/domain/clinic/clinic.ts";
import { customerAggregate } from "../../shared/domain/clinic/customer.ts";
import { normalizeLinkCode } from "../../shared/domain/clinic/link-code.ts";
import { DomainError } from "../../shared/domain/domain-error.ts";
import {
  type AnimalLinkCodeEvent,
  animalConsentStreams,
  type ConsentCoverage,
  type WithdrawalParty,
  withdrawalParty,
} from "../../shared/domain/events/consent.ts";
import { integer } from "../../shared/domain/events/fields.ts";
import { deriveInstallationId } from "../../shared/domain/events/ids.ts";
import { installationAggregate, requireApproved } from "../../shared/domain/partner/installation.ts";
import { findFixtureAnimal, type Sandbox } from "../../shared/domain/partner/sandbox.ts";
import { listSandboxLinks } from "../../shared/domain/partner/sandbox-link-code.ts";
import { isErased } from "../../shared/domain/personal-data/erasure.ts";
import { requireExisting } from "../../shared/domain/preconditions.ts";
import { MINUTE_MS } from "../../shared/domain/time/local-time.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { type CommandContext, handle, loadAggregate } from "../handling/handle.ts";
import { declareCommand, defineCommand } from "./define-command.ts";
import type { LinkCodes } from "./link-codes.ts";
import { createReferences, loadCommandClinic, loadState } from "./operation.ts";

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
  input: LinkOwner & { animalId: string; covers: ConsentCoverage; validMinutes: number },
  context: CommandContext,
) {
  const { validMinutes, ...request } = input;
  const { animalId, applicationId, clinicId } = request;
  const { clinic, clinicContext } = await loadCommandClinic(log, clinicId, context);
  refuseSandbox(clinic);
  const { find, require } = createReferences(log, clinicId);
  await require(customerAggregate, (await require(animalAggregate, animalId)).customerId);
  requireApproved(await find(installationAggregate, deriveInstallationId(applicationId, clinicId)));
  const { code, linkId } = linkCodes.generate();
  const expiresAt = toInstant(context.now + validMinutes * MINUTE_MS);
  const decide = consents.createLinkCode({ ...request, linkId, expiresAt });
  const result = await handle(log, consents.animalConsentAggregate, animalId, decide, clinicContext);
  // If the pointer is missing after a crash, nobody knows the code.
  const assigned: AnimalLinkCodeEvent = { type: "AnimalLinkCodeAssigned", data: { linkId, animalId } };
  await handle(log, consents.animalLinkCodeAggregate, linkId, () => [assigned], clinicContext);
  return { ...result, secrets: { code, expiresAt } };
}

export interface LinkedAnimal {
  animal: Animal;
  link: consents.AnimalLink;
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
  const linkIds = sandbox
    ? listSandboxLinks(sandbox).flatMap((link) => (haveSameCharacters(link.code, code) ? [link.linkId] : []))
    : linkCodes.listLinkIds(code);
  const found = await findLink(log, linkIds, sandbox);
  if (found?.animal.clinicId !== clinicId) return consents.refuseLinkCode();
  const { animal, isOwnerErased, ...target } = found;
  const { customerId } = animal;
  const redemption = {
    ...{ ...target, clinicId, customerId, applicationId, isOwnerErased },
    sandboxGeneration: sandbox?.generation ?? 0,
  };
  const decide = consents.redeemLinkCode(redemption, context.now);
  const { state, statePosition } = await handle(log, consents.animalConsentAggregate, target.animalId, decide, context);
  return { animal, link: requireExisting(consents.findAnimalLink(state, input), "animal_link"), statePosition };
}

const haveSameCharacters = (code: string, otherCode: string) =>
  normalizeLinkCode(code) === normalizeLinkCode(otherCode);

/**
 * Loads the first existing link among the given ids, with its animal. Returns undefined if no link exists. In a
 * sandbox, `isOwnerErased` is always false.
 */
async function findLink(log: EventLog, linkIds: readonly string[], sandbox: Sandbox | null) {
  const sandboxLink = sandbox && listSandboxLinks(sandbox).find(({ linkId }) => linkIds.includes(linkId));
  const target = sandbox ? sandboxLink : await findCodeTarget(log, linkIds);
  if (!target) return undefined;
  const { animalId, linkId, sandboxCode } = target;
  const animal = sandbox ? findFixtureAnimal(sandbox, animalId) : await loadState(log, animalAggregate, animalId);
  if (!animal) return undefined;
  const customer = sandbox ? undefined : await loadState(log, customerAggregate, animal.customerId);
  return { animalId, linkId, sandboxCode, animal, isOwnerErased: customer !== undefined && isErased(customer) };
}

interface CodeTarget {
  animalId: string;
  linkId: string;
  sandboxCode: consents.LinkCode | null;
}

async function findCodeTarget(log: EventLog, linkIds: readonly string[]): Promise<CodeTarget | undefined> {
  for (const linkId of linkIds) {
    const { state } = await loadAggregate(log, consents.animalLinkCodeAggregate, linkId);
    if (state) return { ...state, linkId, sandboxCode: null };
  }
  return undefined;
}

export const createLinkCodeCommand = declareCommand("animal link-code create", consents.animalConsentAggregate, {
  summary:
    "Creates a code with which an application can link an animal once. The code is shown only now. Give it to the animal's owner. It replaces an earlier code that was not redeemed. Uses PERSONAL_DATA_KEYS.",
  input: animalConsentStreams.events.AnimalLinkCodeCreated.omit({ linkId: true, expiresAt: true }).extend({
    validMinutes: integer(15, 7 * 24 * 60).describe("validity of the code in minutes, up to seven days"),
  }),
  permission: "manage_schedule",
  isImportable: false,
  run: createLinkCode,
  example: { covers: "appointments_write", validMinutes: 1440 },
});

/** Withdraws a consent, at the request of the clinic or the owner. Also works at a closed or deleted clinic. */
export const withdrawLink = defineCommand("animal link withdraw", consents.animalConsentAggregate, {
  summary:
    "Withdraws the consent to share an animal with an application, and invalidates a code that was not redeemed. Takes effect within about a second.",
  input: animalConsentStreams.events.AnimalLinkWithdrawn.omit({ linkId: true }).extend({
    requestedBy: withdrawalParty.exclude(["application"]).describe("who withdraws the consent"),
  }),
  permission: "manage_schedule",
  isAllowedWhenClosed: true,
  decide: ({ animalId: _, ...withdrawal }) => consents.withdrawLink({ ...withdrawal, linkId: null }),
  example: { requestedBy: "owner" },
});

/**
 * Ends a link at the request of its application. In a sandbox, the application can also simulate a withdrawal by
 * another party.
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
  const found = await findLink(log, linkId === undefined ? [] : [linkId], sandbox);
  if (!found || found.isOwnerErased) throw new DomainError("animal_link_not_found", "there is no such link");
  const decide = consents.withdrawLink({ ...owner, linkId: found.linkId, requestedBy });
  return (await handle(log, consents.animalConsentAggregate, found.animalId, decide, context)).statePosition;
}
