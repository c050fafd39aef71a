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
import { defineClinicOperation } from "./operation.ts";

export const offerService = defineClinicOperation(serviceAggregate, "serviceId", decideOfferService);
export const repriceService = defineClinicOperation(serviceAggregate, "serviceId", decideRepriceService);
export const withdrawService = defineClinicOperation(serviceAggregate, "serviceId", decideWithdrawService);
export const reinstateService = defineClinicOperation(serviceAggregate, "serviceId", decideReinstateService);

export const addResource = defineClinicOperation(resourceAggregate, "resourceId", decideAddResource);
export const retireResource = defineClinicOperation(resourceAggregate, "resourceId", decideRetireResource);
export const setRule = defineClinicOperation(resourceAggregate, "resourceId", decideSetRule);
export const removeRule = defineClinicOperation(resourceAggregate, "resourceId", decideRemoveRule);
