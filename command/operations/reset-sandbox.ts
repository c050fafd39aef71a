import { randomUUID } from "node:crypto";
import { sandboxClinicId } from "../../shared/domain/events/ids.ts";
import type { SandboxEvent } from "../../shared/domain/events/sandbox.ts";
import type { Sandbox } from "../../shared/domain/partner/sandbox.ts";
import { dayOf, fixture } from "../../shared/domain/partner/sandbox-fixture.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { type EventLog, WrongExpectedRevision } from "../../shared/eventstore/log.ts";
import { type CommandContext, toMetadata } from "../handling/handle.ts";
import { loadSandbox, sandboxStream } from "./sandbox.ts";

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
  const revision = former?.revision ?? -1n;
  const proposed = [{ id: randomUUID(), event, metadata }];
  const position = await log.append(sandboxStream(applicationId), revision, proposed);
  return { ...data, resetAt: toInstant(context.now), revision: revision + 1n, position };
}
