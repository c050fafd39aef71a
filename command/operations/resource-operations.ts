import {
  decideAddResource,
  decideRemoveRule,
  decideRetireResource,
  decideSetRule,
  resourceAggregate,
} from "../../shared/domain/clinic/resource.ts";
import { clinicOperation } from "./clinic-operation.ts";

const id = ({ resourceId }: { resourceId: string }) => resourceId;

export const addResource = clinicOperation(resourceAggregate, id, decideAddResource);
export const retireResource = clinicOperation(resourceAggregate, id, decideRetireResource);
export const setRule = clinicOperation(resourceAggregate, id, decideSetRule);
export const removeRule = clinicOperation(resourceAggregate, id, decideRemoveRule);
