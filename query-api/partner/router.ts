import type Router from "@koa/router";
import type Koa from "koa";
import type { TokenVerifier } from "../../shared/auth/access-token.ts";
import type { Environment } from "../../shared/domain/events/fields.ts";
import { LogUnavailableError } from "../../shared/eventstore/log.ts";
import type { StreamReader } from "../../shared/eventstore/read-stream.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { type ClinicState, requirePartnerAccess } from "../../shared/partner-api/access.ts";
import { type PartnerOperation, partnerOperations } from "../../shared/partner-api/operations.ts";
import { countRefusedRequest, limitApplication, limitInstallation } from "../../shared/partner-api/rate-limits.ts";
import { createPartnerRouter } from "../../shared/partner-api/router.ts";
import type { PositionWatch } from "../../shared/postgres/read-model-position.ts";
import type { RateLimiter } from "../../shared/rate-limit/limiter.ts";
import { TimeoutError, withTimeout } from "../../shared/runtime/timeout.ts";
import { readParameters } from "../http/parameters.ts";
import type { QueryState, ReadRow, ResponseRow } from "../http/read.ts";
import { createPositionWait, type PositionWait } from "./await-position.ts";
import { readCursor } from "./cursor.ts";
import { createAccessFinder } from "./find-access.ts";
import type { PartnerRead } from "./read.ts";

export interface PartnerDependencies {
  verifyToken: TokenVerifier;
  readRow: ReadRow;
  positionWatch: PositionWatch;
  /** Event log, without personal data. Only few operations read it. */
  log: StreamReader;
  limiter: RateLimiter;
  /** Brand in header names, as in `X-<brand>-Clinic-ID`. */
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
    const row = await dependencies.readRow<ResponseRow>(statement, values, ctx.state.deadline);
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

/**
 * Limits the reads of a log to a request's deadline.
 *
 * @param deadline time at which reads fail with a {@link LogUnavailableError}, as a value of `performance.now()`
 */
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
