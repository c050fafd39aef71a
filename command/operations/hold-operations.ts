import {
  decidePlaceHold,
  decideReleaseHold,
  type HoldPlacement,
  holdAggregate,
} from "../../shared/domain/clinic/hold.ts";
import { resourceAggregate } from "../../shared/domain/clinic/resource.ts";
import { DomainError } from "../../shared/domain/domain-error.ts";
import { clinicOperation } from "./clinic-operation.ts";
import { loadOwned } from "./in-clinic.ts";

const id = ({ holdId }: { holdId: string }) => holdId;

/** A hold on a resource names one of the same branch that is still in use. */
export const placeHold = clinicOperation(
  holdAggregate,
  id,
  decidePlaceHold,
  async (log, { resourceId, clinicId, branchId }: HoldPlacement) => {
    if (resourceId === null) return;
    const resource = await loadOwned(log, resourceAggregate, resourceId, clinicId, "resource");
    if (resource.branchId !== branchId)
      throw new DomainError("resource_not_found", "the branch has no such resource");
    if (!resource.active) throw new DomainError("resource_retired", "the resource is retired");
  },
);
export const releaseHold = clinicOperation(holdAggregate, id, decideReleaseHold);
