import { randomUUID } from "node:crypto";
import type Koa from "koa";
import { sandboxClinicId } from "../../shared/events/ids.ts";
import type { SandboxEvent } from "../../shared/events/sandbox.ts";
import { type EventLog, WrongExpectedRevision } from "../../shared/eventstore/log.ts";
import type { SandboxRecord } from "../../shared/partner-api/sandbox-record.ts";
import { toInstant } from "../../shared/time/rfc3339.ts";
import type { Branch, Clinic } from "../clinic/clinic.ts";
import { type CommandContext, toMetadata } from "../handle.ts";
import type { WriteState } from "../partner/clinic-of-request.ts";
import { toCommandContext } from "../partner/command-context.ts";
import { dayOf, fixture } from "./fixture.ts";
import { loadSandbox, type Sandbox, sandboxStream } from "./sandbox.ts";

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

/** POST /sandbox/reset: 200, the application's sandbox as it is from now on. */
export function resetOwnSandbox({ log }: { log: EventLog }): Koa.Middleware<WriteState> {
  return async (ctx) => {
    const sandbox = await resetSandbox(log, ctx.state, toCommandContext(ctx.state));
    ctx.state.position = sandbox.position;
    ctx.body = { ok: true, sandbox: toSandboxRecord(sandbox, ctx.state.clinic) };
  };
}

/** The sandbox right after a reset, as GET /sandbox tells it too. */
function toSandboxRecord(
  { clinicId, generation, resetAt, day, facts }: Sandbox,
  clinic: Clinic,
): SandboxRecord {
  const animals = facts.flatMap((fact) => {
    if (fact.type !== "AnimalRegistered") return [];
    const { animalId: id, name, species } = fact.data;
    return [{ id, name, species }];
  });
  const branches = clinic.branches.map(({ id, name }: Branch) => ({ id, name }));
  const appointments = facts.filter(({ type }) => type === "AppointmentRequested").length;
  const lists = { branches: branches.sort(byName), animals: animals.sort(byName) };
  return { clinicId, generation, resetAt, day, ...lists, appointments };
}

/** By the bytes of UTF-8, as the query side's collation "C" has it. */
function byName(one: { id: string; name: string }, other: { id: string; name: string }): number {
  return Buffer.compare(Buffer.from(one.name), Buffer.from(other.name)) || (one.id < other.id ? -1 : 1);
}
