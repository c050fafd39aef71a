import {
  customerAggregate,
  decideChangeCustomer,
  decideRegisterCustomer,
} from "../../shared/domain/clinic/customer.ts";
import { clinicOperation } from "./clinic-operation.ts";

const id = ({ customerId }: { customerId: string }) => customerId;

export const registerCustomer = clinicOperation(customerAggregate, id, decideRegisterCustomer);
export const changeCustomer = clinicOperation(customerAggregate, id, decideChangeCustomer);
