import type Router from "@koa/router";
import type Koa from "koa";
import { z } from "zod";
import type { TokenVerifier } from "../../shared/auth/access-token.ts";
import { type Environment, uuid } from "../../shared/domain/events/fields.ts";
import { rateLimit, scope } from "../../shared/domain/events/partner.ts";
import { DEFAULT_RATE_LIMIT_PER_MINUTE } from "../../shared/domain/partner/installation.ts";
import { LogUnavailableError } from "../../shared/eventstore/log.ts";
import type { StreamReader } from "../../shared/eventstore/read-log.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import {
  type AccessRecord,
  type ClinicState,
  type FindAccess,
  requirePartnerAccess,
} from "../../shared/partner-api/access.ts";
import { type PartnerOperation, partnerOperations } from "../../shared/partner-api/operations.ts";
import { countRefusedRequest, limitApplication, limitInstallation } from "../../shared/partner-api/rate-limits.ts";
import { createPartnerRouter } from "../../shared/partner-api/router.ts";
import type { PositionWatch } from "../../shared/postgres/read-model-position.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import type { RateLimiter } from "../../shared/rate-limit/limiter.ts";
import { TimeoutError, withTimeout } from "../../shared/runtime/timeout.ts";
import { readParameters } from "../http/parameters.ts";
import type { QueryState, ReadRow, ResponseRow } from "../http/read.ts";
import { createPositionWait, type PositionWait } from "./await-position.ts";
import { readCursor } from "./cursor.ts";
import type { PartnerRead } from "./read.ts";

export interface PartnerDependencies {
  verifyToken: TokenVerifier;
  readRow: ReadRow;
  positionWatch: PositionWatch;
  /** Has no data keys, so it returns no personal data. Only few operations read it. */
  log: StreamReader;
  limiter: RateLimiter;
  /** As in `X-<brand>-Clinic-ID`. */
  brand: string;
}

type State = ClinicState & QueryState;

export function createPartnerReadRouter(reads: readonly PartnerRead[], dependencies: PartnerDependencies): Router {
  const positionWait = createPositionWait(dependencies.positionWatch, dependencies.brand);
  const routes = reads.map((partnerRead) => [
    partnerRead.operationId,
    (environment: Environment) => [
      authorize(partnerRead, environment, dependencies, positionWait),
      limitReads(partnerRead, dependencies.limiter),
      respond(partnerRead, dependencies, positionWait),
    ],
  ]);
  return createPartnerRouter(Object.fromEntries(routes));
}

function limitReads({ operationId }: PartnerRead, limiter: RateLimiter): Koa.Middleware {
  const { requiresClinic, requiresSandbox }: PartnerOperation = partnerOperations[operationId];
  return requiresClinic || requiresSandbox ? limitInstallation(limiter) : limitApplication(limiter);
}

/**
 * Authorizes the request before its deadline. If the caller's log position is ahead of the read models, a refusal may
 * be out of date. In this case, counts the request as refused, waits for the log position and authorizes again.
 */
function authorize(
  partnerRead: PartnerRead,
  environment: Environment,
  dependencies: PartnerDependencies,
  positionWait: PositionWait,
): Koa.Middleware<State> {
  const operation = partnerOperations[partnerRead.operationId];
  const { verifyToken: verify, brand } = dependencies;
  return async (ctx, next) => {
    const findAccess = createAccessFinder(dependencies.readRow, ctx.state.deadline);
    const requireAccess = () => requirePartnerAccess(ctx, operation, environment, { verify, findAccess, brand });
    try {
      await requireAccess();
    } catch (error) {
      const { applicationId } = ctx.state as Partial<State>;
      const isRefusal = error instanceof ApiError && error.status < 500;
      if (!isRefusal || applicationId === undefined || !(await positionWait.isPositionAhead(ctx))) throw error;
      await countRefusedRequest(dependencies.limiter, ctx);
      await positionWait.wait(ctx, applicationId);
      await requireAccess();
    }
    await next();
  };
}

/**
 * Waits for the caller's log position, runs the operation's SQL and responds. Must run after authorization and rate
 * limiting, so that only valid requests wait.
 */
function respond(
  partnerRead: PartnerRead,
  dependencies: PartnerDependencies,
  positionWait: PositionWait,
): Koa.Middleware<State> {
  const statement = { name: `partner ${partnerRead.operationId}`, text: partnerRead.sql };
  return async (ctx) => {
    await positionWait.wait(ctx, ctx.state.applicationId);
    const context = { log: limitLogReads(dependencies.log, ctx.state.deadline), brand: dependencies.brand };
    const request = {
      state: ctx.state,
      pathParams: (ctx as { params?: Record<string, string> }).params ?? {},
      parameters: readParameters(partnerRead.parameters ?? {}, ctx.query),
      cursor: partnerRead.isPaged ? readCursor(ctx.query.cursor) : undefined,
    };
    const values = await partnerRead.getSqlParameters(request, context);
    const { deadline, applicationId } = ctx.state;
    const row = await dependencies.readRow<ResponseRow>(statement, values, deadline, applicationId);
    if (row.refusal !== null) throw toRefusalError(partnerRead, row.refusal);
    if (row.body === null) throw new Error(`The SQL of ${partnerRead.operationId} returned no body.`);
    ctx.type = "application/json";
    const body = (await partnerRead.completeBody?.(row.body, context)) ?? row.body;
    ctx.body = `{"ok":true,${body.slice(1)}`;
  };
}

function toRefusalError(partnerRead: PartnerRead, code: string): Error {
  const status = new Map(Object.entries(partnerRead.refusals)).get(code);
  return status
    ? new ApiError(status, code)
    : new Error(`The SQL of ${partnerRead.operationId} returned the undeclared refusal ${code}.`);
}

/** @param deadline time at which reads fail with a {@link LogUnavailableError}, as a value of `performance.now()` */
function limitLogReads(log: StreamReader, deadline: number): StreamReader {
  return {
    async read(stream, maxRevision) {
      try {
        return await withTimeout(Math.max(0, deadline - performance.now()), log.read(stream, maxRevision));
      } catch (error) {
        if (!(error instanceof TimeoutError)) throw error;
        throw new LogUnavailableError("the event log did not respond before the request's deadline", { cause: error });
      }
    },
  };
}

/** The installation is null unless it is approved and its clinic belongs to the application's environment. */
const accessStatement = {
  name: "partner access",
  text: `SELECT
    coalesce(NOT a.revoked AND a.credential_ids ? $2, false) AS "isCredentialActive",
    coalesce(a.scopes, '[]') AS "applicationScopes",
    CASE WHEN c.clinic_id IS NOT NULL THEN json_build_object('scopes', i.scopes, 'branchIds', i.branch_ids,
      'rateLimitPerMinute', coalesce(i.rate_limit_per_minute, ${DEFAULT_RATE_LIMIT_PER_MINUTE})) END AS installation
  FROM (VALUES (1)) request
  LEFT JOIN ${READ_MODEL_SCHEMA}.partner_application a ON a.application_id = $1::uuid AND a.environment = $3
  LEFT JOIN ${READ_MODEL_SCHEMA}.installation i
    ON i.application_id = a.application_id AND i.clinic_id = $4::uuid AND i.status = 'approved'
  LEFT JOIN ${READ_MODEL_SCHEMA}.clinic c ON c.clinic_id = i.clinic_id AND c.environment = a.environment`,
};

const accessRecordSchema = z.object({
  isCredentialActive: z.boolean(),
  applicationScopes: z.array(scope),
  installation: z
    .object({
      scopes: z.array(scope),
      branchIds: z.array(uuid).nullable(),
      rateLimitPerMinute: rateLimit,
    })
    .nullable(),
}) satisfies z.ZodType<AccessRecord>;

function createAccessFinder(readRow: ReadRow, deadline: number): FindAccess {
  return async ({ applicationId, credentialId, environment, clinicId }) =>
    accessRecordSchema.parse(
      await readRow(accessStatement, [applicationId, credentialId, environment, clinicId], deadline),
    );
}
