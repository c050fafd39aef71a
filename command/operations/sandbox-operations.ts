import { randomUUID } from "node:crypto";
import type { Clinic } from "../../shared/domain/clinic/clinic.ts";
import type { CatalogEvent } from "../../shared/domain/events/catalog.ts";
import { streamName } from "../../shared/domain/events/category.ts";
import { type ClinicEvent, clinicCategory } from "../../shared/domain/events/clinic.ts";
import { installationId, sandboxClinicId } from "../../shared/domain/events/ids.ts";
import {
  type InstallationEvent,
  installationCategory,
  type Scope,
} from "../../shared/domain/events/partner.ts";
import { type SandboxEvent, sandboxCategory } from "../../shared/domain/events/sandbox.ts";
import { DEFAULT_RATE_LIMIT } from "../../shared/domain/partner/installation.ts";
import type { Sandbox } from "../../shared/domain/partner/sandbox.ts";
import { dayOf, fixture, sandboxBranches } from "../../shared/domain/partner/sandbox-fixture.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import {
  EMPTY_STREAM,
  type EventLog,
  type RecordedEvent,
  WrongExpectedRevision,
} from "../../shared/eventstore/log.ts";
import { type CommandContext, toMetadata } from "../handling/handle.ts";

/** The application that gets a sandbox. It need not be registered yet. */
export interface SandboxOwner {
  applicationId: string;
  scopes: Scope[];
}

/**
 * Gives an application its sandbox: a clinic of its own, filled, with the installation there approved. What is there
 * already stays, so that a set-up that was broken off can be done again.
 */
export async function openSandbox(
  log: EventLog,
  owner: SandboxOwner,
  context: CommandContext,
): Promise<void> {
  await openSandboxClinic(log, owner, context);
  await fillSandbox(log, owner, context);
  await approveSandbox(log, owner, context);
}

/** The clinic itself, which outlives every reset: with its branches, subscription and every entitlement. */
export async function openSandboxClinic(
  log: EventLog,
  { applicationId }: Pick<SandboxOwner, "applicationId">,
  context: CommandContext,
): Promise<void> {
  const clinicId = sandboxClinicId(applicationId);
  const place = { timezone: "Europe/London", currency: "GBP", locale: "en-GB", city: "London" };
  const registration = {
    ...{
      clinicId,
      environment: "sandbox" as const,
      slug: `sandbox-${applicationId}`,
      name: "Sandbox Clinic",
    },
    ...{ ...place, isDemo: false, demoExpiresAt: null, sandboxOf: applicationId },
  };
  const entitlement = { key: "scheduling.advanced", enabled: true, limit: null, effectiveUntil: null };
  const events: ClinicEvent[] = [
    { type: "ClinicRegistered", data: registration },
    ...sandboxBranches(applicationId).map(({ id: branchId, ...branch }, index): ClinicEvent => {
      return { type: "BranchOpened", data: { clinicId, branchId, ...branch, isMain: index === 0 } };
    }),
    {
      type: "SubscriptionChanged",
      data: { clinicId, plan: "sandbox", status: "active", currentPeriodEnd: null },
    },
    { type: "EntitlementSet", data: { clinicId, ...entitlement } },
  ];
  await startStream(log, streamName(clinicCategory, clinicId), events, { ...context, clinicId });
}

/** A sandbox is approved from the start, with every scope of the application and every branch. */
export async function approveSandbox(
  log: EventLog,
  { applicationId, scopes }: SandboxOwner,
  context: CommandContext,
): Promise<void> {
  const clinicId = sandboxClinicId(applicationId);
  const id = installationId(applicationId, clinicId);
  const asked = { installationId: id, applicationId, clinicId, scopes: [...new Set(scopes)] };
  const granted = { approvedBy: null, rateLimitPerMinute: DEFAULT_RATE_LIMIT, branchIds: null };
  const events: InstallationEvent[] = [
    { type: "InstallationRequested", data: asked },
    { type: "InstallationApproved", data: { ...asked, ...granted } },
  ];
  await startStream(log, streamName(installationCategory, id), events, { ...context, clinicId });
}

/** All or nothing; a stream that was started before stays as it is. */
async function startStream(
  log: EventLog,
  stream: string,
  events: CatalogEvent[],
  context: CommandContext,
): Promise<void> {
  if (await log.last(stream)) return;
  const metadata = toMetadata({ ...context, environment: "sandbox" });
  try {
    await log.append(
      stream,
      EMPTY_STREAM,
      events.map((event) => ({ id: randomUUID(), event, metadata })),
    );
  } catch (error) {
    // Somebody else was quicker with the same.
    if (!(error instanceof WrongExpectedRevision)) throw error;
  }
}

/**
 * Starts a new generation of an application's sandbox, with the fixture of the day. One event: whoever reads or writes
 * sees the sandbox before it or after it, never in between. A reset that another one was quicker than has had its
 * effect by that one.
 */
export async function resetSandbox(
  log: EventLog,
  { applicationId }: { applicationId: string },
  context: CommandContext,
): Promise<Sandbox> {
  const former = await loadSandbox(log, applicationId);
  try {
    return await startGeneration(log, applicationId, former, context);
  } catch (error) {
    const latter = error instanceof WrongExpectedRevision ? await loadSandbox(log, applicationId) : undefined;
    if (!latter) throw error;
    return latter;
  }
}

/** Fills a sandbox that never was; one that is filled stays as it is. */
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
  former: Sandbox | undefined,
  context: CommandContext,
): Promise<Sandbox> {
  const clinicId = sandboxClinicId(applicationId);
  const day = dayOf(context.now);
  const generation = (former?.generation ?? 0) + 1;
  const data = { applicationId, clinicId, generation, day, facts: fixture(applicationId, day) };
  const event: SandboxEvent = { type: "SandboxReset", data };
  const metadata = toMetadata({ ...context, clinicId, environment: "sandbox" });
  const revision = former?.revision ?? EMPTY_STREAM;
  const proposed = [{ id: randomUUID(), event, metadata }];
  const position = await log.append(sandboxStream(applicationId), revision, proposed);
  return { ...data, resetAt: toInstant(context.now), revision: revision + 1n, position };
}

export function sandboxStream(applicationId: string): string {
  return streamName(sandboxCategory, applicationId);
}

/** A reset tells all there is to know, so the last one is all that is read. */
export async function loadSandbox(log: EventLog, applicationId: string): Promise<Sandbox | undefined> {
  const last = await log.last<SandboxEvent>(sandboxStream(applicationId));
  return last && toSandbox(last);
}

/** A reset is the whole state. */
export function toSandbox({ data, metadata, revision, position }: RecordedEvent<SandboxEvent>): Sandbox {
  return { ...data, resetAt: metadata.occurredAt, revision, position };
}

/**
 * The clinic with its sandbox and the sandbox's generation, where it is one.
 *
 * @throws {Error} for a sandbox that was never filled: it is, before anybody learns of its clinic
 */
export async function withSandbox(
  log: EventLog,
  clinic: Clinic,
): Promise<{ clinic: Clinic; sandbox: Sandbox | null }> {
  if (clinic.sandboxOf === null) return { clinic, sandbox: null };
  const sandbox = await loadSandbox(log, clinic.sandboxOf);
  if (!sandbox) throw new Error(`the sandbox of application ${clinic.sandboxOf} is empty`);
  return { clinic: { ...clinic, sandboxGeneration: sandbox.generation }, sandbox };
}
