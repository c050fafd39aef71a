import type Koa from "koa";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import type { ClinicState } from "../../shared/partner-api/access.ts";
import { type Clinic, clinicAggregate } from "../clinic/clinic.ts";
import { load } from "../handle.ts";
import { type Sandbox, withSandbox } from "../sandbox/sandbox.ts";

/** A request that may write at a clinic. */
export interface WriteState extends ClinicState {
  clinic: Clinic;
  /** The sandbox that the clinic is; null for every other clinic. */
  sandbox: Sandbox | null;
}

/** Nothing is written at a clinic that is suspended or closed: 403 `clinic_not_operational`. */
export function operationalClinic(log: EventLog): Koa.Middleware<WriteState> {
  return async (ctx, next) => {
    const { state: clinic } = await load(log, clinicAggregate, ctx.state.clinicId);
    if (clinic?.environment !== ctx.state.environment) throw new ApiError(403, "installation_denied");
    if (clinic.status !== "active") throw new ApiError(403, "clinic_not_operational");
    Object.assign(ctx.state, await withSandbox(log, clinic));
    await next();
  };
}
