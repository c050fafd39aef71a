import type Koa from "koa";
import { type Clinic, clinicAggregate } from "../../shared/domain/clinic/clinic.ts";
import type { Sandbox } from "../../shared/domain/partner/sandbox.ts";
import { requireExisting } from "../../shared/domain/preconditions.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import type { SandboxRecord } from "../../shared/partner-api/records.ts";
import { sandboxAccess } from "../../shared/partner-api/request-bodies.ts";
import type { Decide } from "../handling/aggregate-cache.ts";
import { changeSandboxAccess } from "../operations/installation-operations.ts";
import { resetSandbox } from "../operations/sandbox-operations.ts";
import { parseBody } from "./errors.ts";
import { toCommandContext, type WriteState } from "./request-context.ts";

/** POST /sandbox/reset: returns 200 with the application's sandbox after the reset. */
export function resetOwnSandbox({ log, decide }: { log: EventLog; decide: Decide }): Koa.Middleware<WriteState> {
  return async (ctx) => {
    const { state: clinic } = await decide((load) => load(clinicAggregate, ctx.state.clinicId));
    const sandbox = await resetSandbox(log, ctx.state, toCommandContext(ctx.state));
    ctx.state.logPosition = sandbox.position;
    ctx.body = { ok: true, sandbox: toSandboxRecord(sandbox, requireExisting(clinic, "clinic")) };
  };
}

/** POST /sandbox/access: returns 200 with the access. */
export function changeOwnAccess({ log }: { log: EventLog }): Koa.Middleware<WriteState> {
  return async (ctx) => {
    const access = parseBody(ctx, sandboxAccess);
    const { applicationId, clinicId } = ctx.state;
    const context = toCommandContext(ctx.state);
    const { statePosition } = await changeSandboxAccess(log, { applicationId, clinicId, ...access }, context);
    ctx.state.logPosition = statePosition;
    ctx.body = { ok: true, access };
  };
}

/** Converts a sandbox to its form in the partner API, which GET /sandbox also returns. */
function toSandboxRecord({ clinicId, generation, resetAt, day, events }: Sandbox, clinic: Clinic): SandboxRecord {
  const animals = events.flatMap((event) => {
    if (event.type !== "AnimalRegistered") return [];
    const { animalId: id, name, species } = event.data;
    return [{ id, name, species }];
  });
  const branches = clinic.branches.map(({ id, name }) => ({ id, name }));
  const appointmentCount = events.filter(({ type }) => type === "AppointmentRequested").length;
  return {
    clinicId,
    generation,
    resetAt,
    day,
    branches: branches.sort(compareByName),
    animals: animals.sort(compareByName),
    appointments: appointmentCount,
  };
}

interface NamedObject {
  id: string;
  name: string;
}

/** Compares names by their UTF-8 bytes, like collation "C" in the SQL of GET /sandbox. Equal names are compared by id. */
function compareByName(left: NamedObject, right: NamedObject): number {
  return Buffer.compare(Buffer.from(left.name), Buffer.from(right.name)) || (left.id < right.id ? -1 : 1);
}
