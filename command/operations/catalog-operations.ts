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
import { clinicOperation } from "./operation.ts";

const serviceIdOf = ({ serviceId }: { serviceId: string }) => serviceId;

export const offerService = clinicOperation(serviceAggregate, serviceIdOf, decideOfferService);
export const repriceService = clinicOperation(serviceAggregate, serviceIdOf, decideRepriceService);
export const withdrawService = clinicOperation(serviceAggregate, serviceIdOf, decideWithdrawService);
export const reinstateService = clinicOperation(serviceAggregate, serviceIdOf, decideReinstateService);

const resourceIdOf = ({ resourceId }: { resourceId: string }) => resourceId;

export const addResource = clinicOperation(resourceAggregate, resourceIdOf, decideAddResource);
export const retireResource = clinicOperation(resourceAggregate, resourceIdOf, decideRetireResource);
export const setRule = clinicOperation(resourceAggregate, resourceIdOf, decideSetRule);
export const removeRule = clinicOperation(resourceAggregate, resourceIdOf, decideRemoveRule);
