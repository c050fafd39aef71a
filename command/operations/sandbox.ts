import type { Clinic } from "../../shared/domain/clinic/clinic.ts";
import { streamName } from "../../shared/domain/events/category.ts";
import { type SandboxEvent, sandboxCategory } from "../../shared/domain/events/sandbox.ts";
import type { Sandbox } from "../../shared/domain/partner/sandbox.ts";
import type { EventLog, RecordedEvent } from "../../shared/eventstore/log.ts";

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
