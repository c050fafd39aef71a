import type { EventLog } from "../../shared/eventstore/log.ts";
import { type CommandContext, DomainError, load } from "../handle.ts";
import { withSandbox } from "../sandbox/sandbox.ts";
import { type Branch, type Clinic, clinicAggregate } from "./clinic.ts";

/**
 * The clinic that a command is about, and the command's context with that clinic and its environment in it.
 *
 * @throws {DomainError} `clinic_not_found`
 */
export async function inClinic(
  log: EventLog,
  clinicId: string,
  context: CommandContext,
): Promise<{ clinic: Clinic; context: CommandContext }> {
  const { state: clinic } = await load(log, clinicAggregate, clinicId);
  if (!clinic) throw new DomainError("clinic_not_found", "there is no such clinic");
  const ofClinic = { ...context, clinicId, environment: clinic.environment };
  return { clinic: (await withSandbox(log, clinic)).clinic, context: ofClinic };
}

/**
 * Restricts a decision to an open clinic. Nothing changes in a closed clinic: a command whose effect is already there
 * returns no event, so that it can be repeated. Every other command is refused.
 *
 * @throws {DomainError} `clinic_closed`
 */
export function whileOpen<State, Event>(
  { status }: Clinic,
  decide: (state: State | undefined) => Event[],
): (state: State | undefined) => Event[] {
  if (status !== "closed") return decide;
  return (state) => {
    if (hasNoEffect(() => decide(state))) return [];
    throw new DomainError("clinic_closed", "the clinic is closed");
  };
}

function hasNoEffect(decide: () => unknown[]): boolean {
  try {
    return decide().length === 0;
  } catch (error) {
    if (error instanceof DomainError) return false;
    throw error;
  }
}

/** @throws {DomainError} `branch_not_found` */
export function branchOf(clinic: Clinic, branchId: string): Branch {
  const branch = clinic.branches.find(({ id }) => id === branchId);
  if (!branch) throw new DomainError("branch_not_found", "the clinic has no such branch");
  return branch;
}

/**
 * A sandbox holds its fixture and what its application makes: nobody else adds to it, so that a reset has all of it.
 *
 * @throws {DomainError} `clinic_is_a_sandbox`
 */
export function refuseSandbox({ sandboxOf }: Clinic): void {
  if (sandboxOf === null) return;
  throw new DomainError("clinic_is_a_sandbox", "a sandbox holds its fixture and what its application makes");
}
