import type { EventLog } from "../../shared/eventstore/log.ts";
import { type CommandContext, DomainError, load } from "../handle.ts";
import { type Branch, type Clinic, clinicAggregate } from "./clinic.ts";

/**
 * The clinic that a command is about, and the command's context with that clinic and its environment in it.
 *
 * @throws {DomainError} `clinic_not_found`, or `clinic_closed`: nothing changes in a closed clinic
 */
export async function inClinic(
  log: EventLog,
  clinicId: string,
  context: CommandContext,
): Promise<{ clinic: Clinic; context: CommandContext }> {
  const { state: clinic } = await load(log, clinicAggregate, clinicId);
  if (!clinic) throw new DomainError("clinic_not_found", "there is no such clinic");
  if (clinic.status === "closed") throw new DomainError("clinic_closed", "the clinic is closed");
  return { clinic, context: { ...context, clinicId, environment: clinic.environment } };
}

/** @throws {DomainError} `branch_not_found` */
export function branchOf(clinic: Clinic, branchId: string): Branch {
  const branch = clinic.branches.find(({ id }) => id === branchId);
  if (!branch) throw new DomainError("branch_not_found", "the clinic has no such branch");
  return branch;
}
