import type Koa from "koa";
import { type Clinic, clinicAggregate } from "../../shared/domain/clinic/clinic.ts";
import type { Sandbox } from "../../shared/domain/partner/sandbox.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import type { ClinicState } from "../../shared/partner-api/access.ts";
import { load } from "../handling/handle.ts";
import { withSandbox } from "../operations/sandbox.ts";

/** A request whose clinic is known. */
export interface WriteState extends ClinicState {
  clinic: Clinic;
  /** The sandbox that the clinic is; null for every other clinic. */
  sandbox: Sandbox | null;
}

/** Looks the request's clinic up. One of the other environment is 403 `installation_denied`. */
export function clinicOfRequest(log: EventLog): Koa.Middleware<WriteState> {
  return async (ctx, next) => {
    const { state: clinic } = await load(log, clinicAggregate, ctx.state.clinicId);
    if (clinic?.environment !== ctx.state.environment) throw new ApiError(403, "installation_denied");
    Object.assign(ctx.state, await withSandbox(log, clinic));
    await next();
  };
}

/**
 * Refuses what brings something new to a clinic that is suspended or closed: 403 `clinic_not_operational`. What makes
 * a partner's access safer or less, such as revoking an endpoint or rotating its secret, does not ask for this.
 */
export function operationalClinic(): Koa.Middleware<WriteState> {
  return async (ctx, next) => {
    if (ctx.state.clinic.status !== "active") throw new ApiError(403, "clinic_not_operational");
    await next();
  };
}
