import * as consents from "../../shared/domain/clinic/animal-consent.ts";
import { type Clinic, clinicAggregate } from "../../shared/domain/clinic/clinic.ts";
import { DomainError } from "../../shared/domain/domain-error.ts";
import { type DataOf, toStreamName } from "../../shared/domain/events/category.ts";
import type { ClinicEvent } from "../../shared/domain/events/clinic.ts";
import { deriveInstallationId, deriveSandboxClinicId } from "../../shared/domain/events/ids.ts";
import type { InstallationEvent, Scope } from "../../shared/domain/events/partner.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import { type SandboxEvent, sandboxStreams } from "../../shared/domain/events/sandbox.ts";
import { DEFAULT_RATE_LIMIT_PER_MINUTE, installationAggregate } from "../../shared/domain/partner/installation.ts";
import type { Sandbox } from "../../shared/domain/partner/sandbox.ts";
import { createFixture, listSandboxBranches, toUtcDay } from "../../shared/domain/partner/sandbox-fixture.ts";
import { listSandboxLinks } from "../../shared/domain/partner/sandbox-link-code.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { EMPTY_STREAM, type EventLog, WrongExpectedRevisionError } from "../../shared/eventstore/log.ts";
import { type CommandContext, handle, toNewEvent } from "../handling/handle.ts";

/** The application that owns the sandbox. The application may not be registered yet. */
interface SandboxOwner {
  applicationId: string;
  scopes: Scope[];
}

/**
 * Opens the sandbox of an application: a clinic with fixture data and an approved installation. Existing parts are
 * kept, so that an interrupted set-up can be repeated.
 */
export async function openSandbox(log: EventLog, owner: SandboxOwner, context: CommandContext): Promise<void> {
  await openSandboxClinic(log, owner, context);
  await fillSandbox(log, owner, context);
  await approveSandbox(log, owner, context);
}

/**
 * Registers the clinic of a sandbox with its branches, subscription and entitlements. A reset of the sandbox does not
 * change the clinic.
 */
export async function openSandboxClinic(
  log: EventLog,
  { applicationId }: Pick<SandboxOwner, "applicationId">,
  context: CommandContext,
): Promise<void> {
  const clinicId = deriveSandboxClinicId(applicationId);
  const registration: DataOf<ClinicEvent, "ClinicRegistered"> = {
    clinicId,
    environment: "sandbox",
    slug: `sandbox-${applicationId}`,
    name: "Sandbox Clinic",
    timezone: "Europe/London",
    currency: "GBP",
    locale: "en-GB",
    city: "London",
    isDemo: false,
    demoExpiresAt: null,
    sandboxOf: applicationId,
  };
  const entitlement = { clinicId, key: "scheduling.advanced", enabled: true, limit: null, effectiveUntil: null };
  const events: ClinicEvent[] = [
    { type: "ClinicRegistered", data: registration },
    ...listSandboxBranches(applicationId).map(({ id: branchId, ...branch }, index): ClinicEvent => {
      return { type: "BranchOpened", data: { clinicId, branchId, ...branch, isMain: index === 0 } };
    }),
    { type: "SubscriptionChanged", data: { clinicId, plan: "sandbox", status: "active", currentPeriodEnd: null } },
    { type: "EntitlementSet", data: entitlement },
  ];
  const sandboxContext = { ...context, clinicId, environment: "sandbox" as const };
  await handle(log, clinicAggregate, clinicId, (state) => (state ? [] : events), sandboxContext);
}

/** Approves the installation of a sandbox, with all scopes of the application and all branches. */
export async function approveSandbox(
  log: EventLog,
  { applicationId, scopes }: SandboxOwner,
  context: CommandContext,
): Promise<void> {
  const clinicId = deriveSandboxClinicId(applicationId);
  const installationId = deriveInstallationId(applicationId, clinicId);
  const request = { installationId, applicationId, clinicId, scopes: [...new Set(scopes)] };
  const approval = {
    approvedBy: null,
    rateLimitPerMinute: DEFAULT_RATE_LIMIT_PER_MINUTE,
    branchIds: null,
    animalAccess: "all" as const,
  };
  const events: InstallationEvent[] = [
    { type: "InstallationRequested", data: request },
    { type: "InstallationApproved", data: { ...request, ...approval } },
  ];
  const sandboxContext = { ...context, clinicId, environment: "sandbox" as const };
  await handle(log, installationAggregate, installationId, (state) => (state ? [] : events), sandboxContext);
}

/**
 * Starts a new generation of an application's sandbox with today's fixture data. The reset is one event, so readers and
 * writers never see a partial reset. If two resets are concurrent, only the first takes effect, and both return
 * the same sandbox.
 */
export async function resetSandbox(
  log: EventLog,
  { applicationId }: { applicationId: string },
  context: CommandContext,
): Promise<Sandbox> {
  const previousSandbox = await loadSandbox(log, applicationId);
  if (previousSandbox) await withdrawLinks(log, previousSandbox, context);
  try {
    return await startGeneration(log, applicationId, previousSandbox, context);
  } catch (error) {
    const concurrentSandbox =
      error instanceof WrongExpectedRevisionError ? await loadSandbox(log, applicationId) : undefined;
    if (!concurrentSandbox) throw error;
    return concurrentSandbox;
  }
}

/** Withdraws all links of a sandbox before its reset, so that the application receives `animal_link.withdrawn`. */
async function withdrawLinks(log: EventLog, sandbox: Sandbox, context: CommandContext): Promise<void> {
  const { applicationId, clinicId } = sandbox;
  const clinicContext = { ...context, clinicId, environment: "sandbox" as const };
  // A redemption during the previous reset may have created a link of an earlier generation. It is withdrawn, too.
  const withdrawal = { applicationId, clinicId, linkId: null, requestedBy: "clinic" as const };
  const decide = (consent: consents.AnimalConsent | undefined) =>
    consents.findAnimalLink(consent, withdrawal) ? consents.withdrawLink(withdrawal)(consent) : [];
  for (const { animalId } of listSandboxLinks(sandbox))
    await handle(log, consents.animalConsentAggregate, animalId, decide, clinicContext);
}

export async function fillSandbox(
  log: EventLog,
  { applicationId }: { applicationId: string },
  context: CommandContext,
): Promise<void> {
  if (!(await loadSandbox(log, applicationId))) await resetSandbox(log, { applicationId }, context);
}

async function startGeneration(
  log: EventLog,
  applicationId: string,
  previousSandbox: Sandbox | undefined,
  context: CommandContext,
): Promise<Sandbox> {
  const clinicId = deriveSandboxClinicId(applicationId);
  const day = toUtcDay(context.now);
  const generation = (previousSandbox?.generation ?? 0) + 1;
  const data = { applicationId, clinicId, generation, day, events: createFixture(applicationId, day) };
  const resetEvent: SandboxEvent = { type: "SandboxReset", data };
  const revision = previousSandbox?.revision ?? EMPTY_STREAM;
  const newEvent = toNewEvent(resetEvent, { ...context, clinicId, environment: "sandbox" });
  const position = await log.append(toSandboxStream(applicationId), revision, [newEvent]);
  return { ...data, resetAt: toInstant(context.now), revision: revision + 1n, position };
}

function toSandboxStream(applicationId: string): string {
  return toStreamName(sandboxStreams, applicationId);
}

/** Loads the sandbox from the event of its last reset. That event contains the whole state. */
export async function loadSandbox(log: EventLog, applicationId: string): Promise<Sandbox | undefined> {
  const resetEvent = await log.readLast<SandboxEvent>(toSandboxStream(applicationId));
  return resetEvent && toSandbox(resetEvent);
}

export function toSandbox({ data, metadata, revision, position }: RecordedEvent<SandboxEvent>): Sandbox {
  return { ...data, resetAt: metadata.occurredAt, revision, position };
}

/**
 * Loads the sandbox that a clinic belongs to, and adds the sandbox's generation to the clinic. A clinic that is not a
 * sandbox is returned unchanged.
 *
 * @throws {DomainError} `object_deleted` if the clinic's sandbox does not exist, which means that it was deleted
 */
export async function resolveSandbox(
  log: EventLog,
  clinic: Clinic,
): Promise<{ clinic: Clinic; sandbox: Sandbox | null }> {
  if (clinic.sandboxOf === null) return { clinic, sandbox: null };
  const sandbox = await loadSandbox(log, clinic.sandboxOf);
  if (!sandbox) throw new DomainError("object_deleted", `the sandbox of application ${clinic.sandboxOf} was deleted`);
  return { clinic: { ...clinic, sandboxGeneration: sandbox.generation }, sandbox };
}
