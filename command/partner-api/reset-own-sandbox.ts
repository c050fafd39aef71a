import type Koa from "koa";
import type { Branch, Clinic } from "../../shared/domain/clinic/clinic.ts";
import type { Sandbox } from "../../shared/domain/partner/sandbox.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import type { SandboxRecord } from "../../shared/partner-api/sandbox-record.ts";
import { resetSandbox } from "../operations/sandbox-operations.ts";
import { toCommandContext, type WriteState } from "./request-context.ts";

/** POST /sandbox/reset: 200 with the application's sandbox after the reset. */
export function resetOwnSandbox({ log }: { log: EventLog }): Koa.Middleware<WriteState> {
  return async (ctx) => {
    const sandbox = await resetSandbox(log, ctx.state, toCommandContext(ctx.state));
    ctx.state.logPosition = sandbox.position;
    ctx.body = { ok: true, sandbox: toSandboxRecord(sandbox, ctx.state.clinic) };
  };
}

/** Converts a sandbox to the record that GET /sandbox also returns. */
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

/** Compares by the bytes of UTF-8, like the collation "C" of the query side. */
function byName(one: { id: string; name: string }, other: { id: string; name: string }): number {
  return Buffer.compare(Buffer.from(one.name), Buffer.from(other.name)) || (one.id < other.id ? -1 : 1);
}
