import type Koa from "koa";
import { type Membership, membershipAggregate } from "../../shared/domain/clinic/membership.ts";
import { uuid } from "../../shared/domain/events/fields.ts";
import { type Operator, operatorAggregate } from "../../shared/domain/operator.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import type { RequestState } from "../../shared/http/app.ts";
import { listHeaderValues } from "../../shared/http/request.ts";
import { countRefusedRequest } from "../../shared/partner-api/rate-limits.ts";
import type { RateLimiter } from "../../shared/rate-limit/limiter.ts";
import { enforceRateLimit } from "../../shared/rate-limit/middleware.ts";
import { loadAggregate } from "../handling/handle.ts";
import { readAuthorization, requireActive } from "../operations/credentials.ts";
import type { StaffCommand } from "../operations/define-command.ts";
import { OPERATOR_PREFIX } from "../operations/operator-operations.ts";
import type { LogPositionState } from "../partner-api/expose-log-position.ts";

export interface OperatorState extends RequestState, LogPositionState {
  operator: Operator;
}

/** Maximum number of requests with one credential. */
export const MAX_REQUESTS_PER_MINUTE = 600;

/**
 * Requires an operator's credential. Each request reads the event log, so a revocation takes effect with the next
 * request.
 */
export function requireOperator(log: EventLog, limiter: RateLimiter): Koa.Middleware<OperatorState> {
  return async (ctx, next) => {
    const operator = await authenticate(log, ctx.get("Authorization"), ctx.state.now).catch(async (error: unknown) => {
      if (error instanceof ApiError) await countRefusedRequest(limiter, ctx);
      throw error;
    });
    ctx.state.operator = operator;
    await enforceRateLimit(limiter, ctx, `operator ${operator.id}`, MAX_REQUESTS_PER_MINUTE);
    await next();
  };
}

/** @throws {ApiError} 401 `missing_token` or `invalid_token` */
async function authenticate(log: EventLog, authorization: string, now: number): Promise<Operator> {
  const credential = readAuthorization(OPERATOR_PREFIX, authorization);
  const { state } = await loadAggregate(log, operatorAggregate, credential.ownerId);
  return requireActive(credential, state, now);
}

/**
 * Requires that the operator may run the command `name` at the clinic.
 *
 * @throws {ApiError} 403 `insufficient_scope`
 */
export function requireScope({ clinicIds, commands }: Operator, name: string, clinicId: string): void {
  const isPermitted = (clinicIds?.includes(clinicId) ?? true) && (commands?.includes(name) ?? true);
  if (!isPermitted) throw new ApiError(403, "insufficient_scope");
}

export function getActingMemberHeader(brand: string): string {
  return `X-${brand}-Acting-Member`;
}

/**
 * Returns the member of the clinic on whose behalf the operator acts; undefined if the request names no member.
 *
 * @throws {ApiError} 403 `acting_member_not_permitted` if there is no such active member, or the member lacks the
 *   command's permission
 */
export async function findActingMember(
  log: EventLog,
  ctx: Koa.ParameterizedContext,
  { permission }: StaffCommand,
  clinicId: string,
  brand: string,
): Promise<Membership | undefined> {
  const [value, ...otherValues] = listHeaderValues(ctx.req, getActingMemberHeader(brand).toLowerCase());
  if (value === undefined) return undefined;
  const id = uuid.safeParse(value).data;
  const member = id && otherValues.length === 0 ? (await loadAggregate(log, membershipAggregate, id)).state : undefined;
  const isPermitted =
    member?.clinicId === clinicId &&
    member.status === "active" &&
    member.rights.permissions.some((granted) => granted === permission);
  return isPermitted ? member : refuseActingMember();
}

/**
 * Requires that a command concerns only branches of the acting member, and grants at most the member's rights. An
 * approval of an installation must name this member as approver. Without an acting member, grants and approvals are
 * refused.
 *
 * @param branchId branch of the object that the command changes; undefined if it has none
 * @throws {ApiError} 403 `acting_member_not_permitted`
 */
export function requireOwnRights(
  { input, name }: StaffCommand,
  values: Record<string, unknown>,
  branchId: unknown,
  member: Membership | undefined,
): void {
  const { permissions, branchIds, membershipId } = values as Record<string, readonly string[] | string | undefined>;
  const isGrant = "permissions" in input.shape;
  if (!member) {
    if (isGrant || name === "installation approve") refuseActingMember();
    return;
  }
  const { rights } = member;
  const isWithin = (granted: readonly string[], own: readonly string[]) => granted.every((item) => own.includes(item));
  const isScoped = rights.branchAccess === "scoped";
  const hasRights =
    (!isGrant || isWithin(permissions as string[], rights.permissions)) &&
    (!isGrant || !isScoped || (branchIds?.length !== 0 && isWithin(branchIds as string[], rights.branchIds))) &&
    (!isScoped || typeof branchId !== "string" || rights.branchIds.includes(branchId)) &&
    // The approver of an installation is the member.
    (name !== "installation approve" || membershipId === member.id);
  if (!hasRights) refuseActingMember();
}

function refuseActingMember(): never {
  throw new ApiError(403, "acting_member_not_permitted");
}
