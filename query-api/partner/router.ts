import type Router from "@koa/router";
import type Koa from "koa";
import { z } from "zod";
import type { TokenVerifier } from "../../shared/auth/access-token.ts";
import type { Environment } from "../../shared/domain/events/fields.ts";
import { scope } from "../../shared/domain/events/partner.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { type AccessRecord, type ClinicState, requirePartnerAccess } from "../../shared/partner-api/access.ts";
import { createAuthentication } from "../../shared/partner-api/authenticate.ts";
import type { PartnerOperation } from "../../shared/partner-api/operations.ts";
import { countRefusedRequest, limitCaller } from "../../shared/partner-api/rate-limits.ts";
import { installationAccess } from "../../shared/partner-api/records.ts";
import { createPartnerRouter } from "../../shared/partner-api/router.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import type { RateLimiter } from "../../shared/rate-limit/limiter.ts";
import type { ConcurrencyLimiter } from "../../shared/rate-limit/middleware.ts";
import { readParameters } from "../http/parameters.ts";
import { limitCallerReads, type QueryState, READ_TIMEOUT_MS, type ReadRow, type ResponseRow } from "../http/read.ts";
import { readCursor } from "./cursor.ts";
import { getOwnerId, type PartnerRead, type PartnerRequest, type WaitForEvent } from "./read.ts";
import { readPosition, type Waits } from "./waits.ts";

export interface PartnerDependencies {
  verifyToken: TokenVerifier;
  readRow: ReadRow;
  waits: Waits;
  limiter: RateLimiter;
  /** Brand in header names, as in `X-<brand>-Clinic-ID`. */
  brand: string;
}

type State = ClinicState & QueryState;

export function createPartnerReadRouter(reads: readonly PartnerRead[], dependencies: PartnerDependencies): Router {
  const { verifyToken: verify, limiter, brand } = dependencies;
  const { authenticate, concurrencyLimiter } = createAuthentication({ verify, limiter, brand });
  const routes = reads.map((partnerRead) => [
    partnerRead.operationId,
    (operation: PartnerOperation, environment: Environment) => {
      const requireAccess = createAccessCheck(operation, dependencies);
      return [
        authenticate(operation, environment),
        authorize(requireAccess, dependencies),
        limitCaller(dependencies.limiter),
        respond(partnerRead, requireAccess, dependencies, concurrencyLimiter),
      ];
    },
  ]);
  return createPartnerRouter(Object.fromEntries(routes));
}

type RequireAccess = (ctx: Koa.ParameterizedContext<State>) => Promise<void>;

/**
 * Creates a function that authorizes a request to an operation. Reads the access data within the request's deadline.
 */
function createAccessCheck(operation: PartnerOperation, { readRow }: PartnerDependencies): RequireAccess {
  return async (ctx) => requirePartnerAccess(ctx, operation, await readAccess(readRow, ctx.state));
}

/**
 * Authorizes the request before its deadline. If the caller's log position is ahead of the read models, a refusal may
 * be out of date. In this case, counts the request as refused, waits for the log position and authorizes again.
 */
function authorize(
  requireAccess: RequireAccess,
  { limiter, waits, brand }: PartnerDependencies,
): Koa.Middleware<State> {
  return async (ctx, next) => {
    try {
      await requireAccess(ctx);
    } catch (error) {
      const isRefusal = error instanceof ApiError && error.status < 500;
      const position = isRefusal ? readPosition(ctx, brand) : undefined;
      if (position === undefined || (await waits.isReached(position))) throw error;
      await countRefusedRequest(limiter, ctx);
      await waits.forPosition(ctx.state.applicationId, position);
      await requireAccess(ctx);
    }
    await next();
  };
}

/** Maximum number of an application's requests that are authorized and read at the same time after a wait. */
const MAX_RESUMED_REQUESTS = 4;

/** Maximum time from the end of a wait to the end of the following read. Milliseconds. */
const MAX_RESUME_MS = 25_000;

/**
 * Waits for the caller's log position, runs the operation's SQL and responds. Must run after authorization and rate
 * limiting, so that only valid requests wait. A request that waits for an event is authorized again after the wait. One
 * event can end the waits of many requests, so only a few requests of an application resume at once. The new deadline
 * of a request starts when it resumes.
 */
function respond(
  partnerRead: PartnerRead,
  requireAccess: RequireAccess,
  dependencies: PartnerDependencies,
  concurrencyLimiter: ConcurrencyLimiter,
): Koa.Middleware<State> {
  const resume = limitCallerReads(MAX_RESUMED_REQUESTS);
  const { waits, brand, readRow } = dependencies;
  return async (ctx) => {
    const requiredPosition = readPosition(ctx, brand);
    if (requiredPosition !== undefined) await waits.forPosition(ctx.state.applicationId, requiredPosition);
    const startedAt = performance.now();
    const read = async (lastWait?: WaitForEvent) => {
      const { deadline, applicationId } = ctx.state;
      const { operationId, isPaged } = partnerRead;
      const parameters = readParameters(partnerRead.parameters ?? {}, ctx.query);
      const alternative = partnerRead.alternative?.appliesTo(parameters) ? partnerRead.alternative : undefined;
      const request: PartnerRequest = {
        state: ctx.state,
        pathParams: (ctx as { params?: Record<string, string> }).params ?? {},
        parameters,
        cursor: isPaged && !alternative ? readCursor(ctx.query.cursor) : undefined,
        lastWait,
        readRow: (statement, values) => readRow(statement, values, deadline, applicationId),
        brand,
      };
      const { sql, getSqlParameters, completeBody } = alternative ?? partnerRead;
      const statement = { name: `partner ${operationId}${sql === partnerRead.sql ? "" : " alternative"}`, text: sql };
      const { refusal, body } = await request.readRow<ResponseRow>(statement, await getSqlParameters(request));
      if (refusal !== null) throw toRefusalError(partnerRead, refusal);
      const wait = partnerRead.findWait?.(body, request);
      return { wait, body: completeBody?.(body, request) ?? body };
    };
    const waitForEvent = async ({ wait }: Awaited<ReturnType<typeof read>>) => {
      const timeoutMs = wait ? startedAt + wait.timeoutMs - performance.now() : 0;
      return wait && timeoutMs > 0 && awaitEvent(ctx, waits, concurrencyLimiter, { ...wait, timeoutMs });
    };
    let result = await read();
    while (await waitForEvent(result)) {
      const { wait } = result;
      const lastDeadline = performance.now() + MAX_RESUME_MS;
      result = await resume(ctx.state.applicationId, async () => {
        ctx.state.deadline = Math.min(performance.now() + READ_TIMEOUT_MS, lastDeadline);
        await requireAccess(ctx);
        return read(wait);
      });
    }
    ctx.type = "application/json";
    ctx.body = `{"ok":true,${result.body.slice(1)}`;
  };
}

/**
 * Waits for an event of the request's clinic, or of its application. Meanwhile, the request does not count as a request
 * in progress, and the time does not count as its duration.
 *
 * @returns true if the request should be authorized and read again
 */
async function awaitEvent(
  ctx: Koa.ParameterizedContext<State>,
  waits: Waits,
  concurrencyLimiter: ConcurrencyLimiter,
  { position, timeoutMs }: WaitForEvent,
): Promise<boolean> {
  const { applicationId } = ctx.state;
  const controller = new AbortController();
  const abort = () => controller.abort();
  ctx.res.once("close", abort);
  const startedAt = performance.now();
  concurrencyLimiter.leave(applicationId);
  try {
    return await waits.forEvent(applicationId, getOwnerId(ctx.state), position, timeoutMs, controller.signal);
  } finally {
    concurrencyLimiter.reenter(applicationId);
    ctx.res.off("close", abort);
    ctx.state.waitedMs = (ctx.state.waitedMs ?? 0) + performance.now() - startedAt;
  }
}

function toRefusalError(partnerRead: PartnerRead, code: string): Error {
  const status = new Map(Object.entries(partnerRead.refusals)).get(code);
  return status
    ? new ApiError(status, code)
    : new Error(`The SQL of ${partnerRead.operationId} returned the undeclared refusal ${code}.`);
}

/** Selects access data. `installation` is null unless it is approved, at a clinic of the application's environment. */
const accessStatement = {
  name: "partner access",
  text: `SELECT
    coalesce(NOT a.revoked AND a.credential_ids ? $2, false) AS "isCredentialActive",
    coalesce(a.scopes, '[]') AS "applicationScopes",
    CASE WHEN c.clinic_id IS NOT NULL THEN ${installationAccess.sql} END AS installation,
    $5::uuid IS NULL OR EXISTS (SELECT FROM ${READ_MODEL_SCHEMA}.branch
      WHERE clinic_id = $4::uuid AND branch_id = $5::uuid) AS "isBranchKnown"
  FROM (VALUES (1)) request
  LEFT JOIN ${READ_MODEL_SCHEMA}.partner_application a ON a.application_id = $1::uuid AND a.environment = $3
  LEFT JOIN ${READ_MODEL_SCHEMA}.installation i
    ON i.application_id = a.application_id AND i.clinic_id = $4::uuid AND i.status = 'approved'
  LEFT JOIN ${READ_MODEL_SCHEMA}.clinic c ON c.clinic_id = i.clinic_id AND c.environment = a.environment`,
};

const accessRecordSchema = z.object({
  isCredentialActive: z.boolean(),
  applicationScopes: z.array(scope),
  installation: installationAccess.schema.nullable(),
  isBranchKnown: z.boolean(),
}) satisfies z.ZodType<AccessRecord>;

async function readAccess(readRow: ReadRow, { accessQuery, deadline }: State): Promise<AccessRecord> {
  const { applicationId, credentialId, environment, clinicId, branchId } = accessQuery;
  const values = [applicationId, credentialId, environment, clinicId, branchId];
  return accessRecordSchema.parse(await readRow(accessStatement, values, deadline, applicationId));
}
