import {
  animalAggregate,
  decideChangeAnimal,
  decideRegisterAnimal,
  decideWeighAnimal,
} from "../../shared/domain/clinic/animal.ts";
import { customerAggregate } from "../../shared/domain/clinic/customer.ts";
import { clinicOperation } from "./clinic-operation.ts";
import { loadOwned } from "./in-clinic.ts";

const id = ({ animalId }: { animalId: string }) => animalId;

/** An animal belongs to a customer of the same clinic. */
export const registerAnimal = clinicOperation(animalAggregate, id, decideRegisterAnimal, (log, command) =>
  loadOwned(log, customerAggregate, command.customerId, command.clinicId, "customer"),
);
export const changeAnimal = clinicOperation(animalAggregate, id, decideChangeAnimal);
export const weighAnimal = clinicOperation(animalAggregate, id, decideWeighAnimal);
