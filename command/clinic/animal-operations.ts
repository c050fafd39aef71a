import { animalAggregate } from "./animal.ts";
import { clinicOperation } from "./clinic-operation.ts";
import { customerAggregate } from "./customer.ts";
import { decideChangeAnimal, decideRegisterAnimal, decideWeighAnimal } from "./decide-animal.ts";
import { loadOwned } from "./owned.ts";

const id = ({ animalId }: { animalId: string }) => animalId;

/** An animal belongs to a customer of the same clinic. */
export const registerAnimal = clinicOperation(animalAggregate, id, decideRegisterAnimal, (log, command) =>
  loadOwned(log, customerAggregate, command.customerId, command.clinicId, "customer"),
);
export const changeAnimal = clinicOperation(animalAggregate, id, decideChangeAnimal);
export const weighAnimal = clinicOperation(animalAggregate, id, decideWeighAnimal);
