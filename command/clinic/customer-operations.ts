import { clinicOperation } from "./clinic-operation.ts";
import { customerAggregate, decideChangeCustomer, decideRegisterCustomer } from "./customer.ts";

const id = ({ customerId }: { customerId: string }) => customerId;

export const registerCustomer = clinicOperation(customerAggregate, id, decideRegisterCustomer);
export const changeCustomer = clinicOperation(customerAggregate, id, decideChangeCustomer);
