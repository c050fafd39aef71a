import { randomUUID } from "node:crypto";
import type { CatalogEvent } from "../../shared/domain/events/catalog.ts";
import { streamName } from "../../shared/domain/events/category.ts";
import { type ClinicEvent, clinicCategory } from "../../shared/domain/events/clinic.ts";
import { installationId, sandboxClinicId } from "../../shared/domain/events/ids.ts";
import {
  type InstallationEvent,
  installationCategory,
  type Scope,
} from "../../shared/domain/events/partner.ts";
import { DEFAULT_RATE_LIMIT } from "../../shared/domain/partner/installation.ts";
import { sandboxBranches } from "../../shared/domain/partner/sandbox-fixture.ts";
import { type EventLog, WrongExpectedRevision } from "../../shared/eventstore/log.ts";
import { type CommandContext, toMetadata } from "../handling/handle.ts";
import { fillSandbox } from "./reset-sandbox.ts";

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
      -1n,
      events.map((event) => ({ id: randomUUID(), event, metadata })),
    );
  } catch (error) {
    // Somebody else was quicker with the same.
    if (!(error instanceof WrongExpectedRevision)) throw error;
  }
}
