import { clinicOperation } from "./clinic-operation.ts";
import {
  decideAddResource,
  decideRemoveRule,
  decideRetireResource,
  decideSetRule,
} from "./decide-resource.ts";
import { resourceAggregate } from "./resource.ts";

const id = ({ resourceId }: { resourceId: string }) => resourceId;

export const addResource = clinicOperation(resourceAggregate, id, decideAddResource);
export const retireResource = clinicOperation(resourceAggregate, id, decideRetireResource);
export const setRule = clinicOperation(resourceAggregate, id, decideSetRule);
export const removeRule = clinicOperation(resourceAggregate, id, decideRemoveRule);
