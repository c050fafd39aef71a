import type { Decision } from "../../shared/domain/aggregate.ts";
import {
  type Clinic,
  clinicAggregate,
  decideChangeSubscription,
  decideCloseClinic,
  decideOpenBranch,
  decideRegisterClinic,
  decideReinstateClinic,
  decideSetEntitlement,
  decideSetRetentionRule,
  decideSuspendClinic,
} from "../../shared/domain/clinic/clinic.ts";
import {
  decideAddResource,
  decideRemoveRule,
  decideRetireResource,
  decideSetRule,
  resourceAggregate,
} from "../../shared/domain/clinic/resource.ts";
import {
  decideOfferService,
  decideReinstateService,
  decideRepriceService,
  decideWithdrawService,
  serviceAggregate,
} from "../../shared/domain/clinic/service.ts";
import type { ClinicEvent } from "../../shared/domain/events/clinic.ts";
import { handle, loadAggregate } from "../handling/handle.ts";
import { defineClinicOperation, type Operation } from "./operation.ts";

/**
 * Defines the operation of a command that changes a registered clinic. The clinic is loaded first, because the event
 * metadata contains the clinic's environment.
 */
function defineOperation<Command extends { clinicId: string }>(
  decide: (command: Command) => Decision<Clinic, ClinicEvent>,
): Operation<Command, Clinic> {
  return async (log, command, context) => {
    const { clinicId } = command;
    const { state } = await loadAggregate(log, clinicAggregate, clinicId);
    const clinicContext = { ...context, clinicId, environment: state?.environment ?? null };
    return handle(log, clinicAggregate, clinicId, decide(command), clinicContext);
  };
}

/** Registers a clinic. Time zones, currencies and locales that Intl does not know are refused. */
export const registerClinic: Operation<Parameters<typeof decideRegisterClinic>[0], Clinic> = (
  log,
  command,
  context,
) => {
  const { clinicId, environment } = command;
  const clinicContext = { ...context, clinicId, environment };
  return handle(log, clinicAggregate, clinicId, decideRegisterClinic(command), clinicContext);
};

export const suspendClinic = defineOperation(decideSuspendClinic);
export const reinstateClinic = defineOperation(decideReinstateClinic);
export const closeClinic = defineOperation(decideCloseClinic);
export const openBranch = defineOperation(decideOpenBranch);
export const changeSubscription = defineOperation(decideChangeSubscription);
export const setEntitlement = defineOperation(decideSetEntitlement);
export const setRetentionRule = defineOperation(decideSetRetentionRule);

export const offerService = defineClinicOperation(serviceAggregate, "serviceId", decideOfferService);
export const repriceService = defineClinicOperation(serviceAggregate, "serviceId", decideRepriceService);
export const withdrawService = defineClinicOperation(serviceAggregate, "serviceId", decideWithdrawService);
export const reinstateService = defineClinicOperation(serviceAggregate, "serviceId", decideReinstateService);

export const addResource = defineClinicOperation(resourceAggregate, "resourceId", decideAddResource);
export const retireResource = defineClinicOperation(resourceAggregate, "resourceId", decideRetireResource);
export const setRule = defineClinicOperation(resourceAggregate, "resourceId", decideSetRule);
export const removeRule = defineClinicOperation(resourceAggregate, "resourceId", decideRemoveRule);
