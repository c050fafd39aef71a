import {
  decideOfferService,
  decideReinstateService,
  decideRepriceService,
  decideWithdrawService,
  serviceAggregate,
} from "../../shared/domain/clinic/service.ts";
import { clinicOperation } from "./clinic-operation.ts";

const id = ({ serviceId }: { serviceId: string }) => serviceId;

export const offerService = clinicOperation(serviceAggregate, id, decideOfferService);
export const repriceService = clinicOperation(serviceAggregate, id, decideRepriceService);
export const withdrawService = clinicOperation(serviceAggregate, id, decideWithdrawService);
export const reinstateService = clinicOperation(serviceAggregate, id, decideReinstateService);
