import type Koa from "koa";
import type pg from "pg";
import { z } from "zod";
import type { AuditAction } from "../../../shared/domain/events/audit.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { describeIssue } from "../../../shared/domain/validation/describe-issue.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import type { DataKeys } from "../../../shared/personal-data/data-keys.ts";
import { type Access, recordAccess } from "../access/record-access.ts";
import { exportClinic, exportQuerySchema, MissingEventsError } from "../export/export-clinic.ts";
import type { AuditSigner } from "../export/signing.ts";
import { DifferentLogError, IndexBehindError } from "../index/audit-index.ts";
import type { IndexedLog } from "../index/read-rows.ts";
import { findNames, type RecordName } from "../names/find-names.ts";
import { type AuditQuery, type ItemStream, type ReadOptions, StreamNotFoundError } from "../queries/audit-query.ts";
import { UnreadableStreamError } from "../state/replay.ts";
import type { AuditorState } from "./auditor-access.ts";
import { streamLines } from "./stream-lines.ts";

export interface AuditDependencies extends IndexedLog {
  log: EventLog;
  dataKeys: DataKeys;
  pool: pg.Pool;
}

export type AuditContext = Koa.ParameterizedContext<AuditorState>;
export type AuditHandler = (ctx: AuditContext) => Promise<void>;

/**
 * Validates the parameters of a request. They come from the query string or from a JSON body.
 *
 * @param problems problems of other parameters, which the caller has already checked
 * @throws {ApiError} 400 `invalid_query`, with details that name the invalid parameters
 */
export function readQuery<Schema extends z.ZodType>(
  query: unknown,
  schema: Schema,
  problems: readonly { path: string; message: string }[] = [],
): z.output<Schema> {
  const repeatedNames = Object.entries(query ?? {}).flatMap(([name, value]) => (Array.isArray(value) ? [name] : []));
  const parseResult = schema.safeParse(query);
  if (parseResult.success && repeatedNames.length === 0 && problems.length === 0) return parseResult.data;
  const issues = parseResult.error?.issues ?? [];
  const details = [
    ...problems,
    ...repeatedNames.map((path) => ({ path, message: "must be given once" })),
    ...issues.map((issue) => ({ path: issue.path.join(".") || "query", message: describeIssue(issue) })),
  ];
  throw new ApiError(400, "invalid_query", { details });
}

/**
 * Records the access of the auditor who sends the request. Must be called before any data is returned.
 *
 * @param query the parameters to record; default: all parameters of the request
 * @throws {LogUnavailableError} if the access cannot be recorded; no data may then be returned
 */
export function recordRequestAccess(
  log: EventLog,
  ctx: AuditContext,
  action: AuditAction,
  query: Record<string, unknown> = { ...ctx.query },
  foundRecords: Pick<Access, "found" | "clinicIds"> = {},
): Promise<string> {
  const { auditor, correlationId, now, traceparent } = ctx.state;
  const actor = { type: "auditor", id: auditor.id } as const;
  const requestFields = { correlationId, causationId: correlationId, now, traceparent };
  const context = { actor, clinicId: null, environment: null, ...requestFields };
  return recordAccess(log, { auditorId: auditor.id, action, query, ...foundRecords }, context);
}

/**
 * Schema of a query without parameters. It rejects unknown parameters, because all parameters of a request are recorded
 * with the access.
 */
export const emptyQuerySchema = z.strictObject({});

/** Maximum number of items in a list that is requested with `names=true`. */
const MAX_NAMED_ITEMS = 500;

/**
 * Serves a query. A list is served as JSON lines, one item per line. The last line is `{"end": …}`. A response without
 * this line is incomplete.
 *
 * With `names=true`, the response also contains the names of the records in it. The access is then recorded after the
 * query has run, with the ids of the named records. Otherwise, the access is recorded before the query runs.
 */
export function serveQuery(
  { action, schema, run }: AuditQuery<z.ZodType, object>,
  dependencies: AuditDependencies,
): AuditHandler {
  return async (ctx) => {
    const { names: wantsNames, ...parameters } = ctx.query;
    const isValid = wantsNames === undefined || wantsNames === "true";
    const query = readQuery(parameters, schema, isValid ? [] : [{ path: "names", message: "must be `true`" }]);
    const controller = new AbortController();
    if (wantsNames === undefined) await recordRequestAccess(dependencies.log, ctx, action);
    const result = await run(query, toReadOptions(ctx, dependencies, controller.signal)).catch(throwApiError);
    const list = Symbol.asyncIterator in result ? (result as ItemStream<unknown>) : undefined;
    if (wantsNames === undefined) {
      if (list) return streamLines(ctx, toLines(list), controller).catch(throwApiError);
      ctx.body = { ok: true, ...result };
      return;
    }
    const { items, end } = list ? await readPage(list).catch(throwApiError) : { items: [], end: {} };
    const names = await recordNamedAccess(dependencies, ctx, action, parameters, list ? items : result);
    if (!list) {
      ctx.body = { ok: true, ...result, names };
      return;
    }
    const lastLine = { end: { count: items.length, ...end, names } };
    ctx.type = "application/x-ndjson";
    ctx.body = [...items, lastLine].map((line) => `${JSON.stringify(line)}\n`).join("");
  };
}

/**
 * Finds the names of the records in a response, and records the access with the ids of these records.
 *
 * @param found additional ids and clinics to record
 * @returns the names; null if the read models are unavailable
 */
export async function recordNamedAccess(
  { log, pool }: Pick<AuditDependencies, "log" | "pool">,
  ctx: AuditContext,
  action: AuditAction,
  parameters: Record<string, unknown>,
  response: unknown,
  found: { found: string[]; clinicIds: string[] } = { found: [], clinicIds: [] },
): Promise<RecordName[] | null> {
  const names = await findNames(pool, response, ctx.state.auditor.clinicIds);
  const ids = new Set([...found.found, ...(names ?? []).map(({ id }) => id)]);
  const clinicIds = new Set([...found.clinicIds, ...(names ?? []).flatMap(({ clinicId }) => clinicId ?? [])]);
  await recordRequestAccess(log, ctx, action, parameters, { found: [...ids], clinicIds: [...clinicIds] });
  return names;
}

/** Reads up to 500 items of a list. If the list has more items, `end.next` is the position of the last item read. */
async function readPage(stream: ItemStream<unknown>): Promise<{ items: unknown[]; end: object }> {
  const items: unknown[] = [];
  for (;;) {
    const { done, value } = await stream.next();
    if (done) return { items, end: value };
    if (items.length === MAX_NAMED_ITEMS) {
      await stream.return({});
      const last = items.at(-1) as { position: string } | { event: { position: string } };
      return { items, end: { next: "event" in last ? last.event.position : last.position } };
    }
    items.push(value);
  }
}

/**
 * GET /audit/v1/export: a clinic's events in a time range, followed by the signed manifest. If the log lacks events, a
 * line with an error that names them replaces the manifest.
 */
export function streamExport(dependencies: AuditDependencies & { signer: AuditSigner }): AuditHandler {
  return async (ctx) => {
    const query = readQuery(ctx.query, exportQuerySchema);
    const { auditor, now } = ctx.state;
    const accessId = await recordRequestAccess(dependencies.log, ctx, "export");
    const exportedBy = { type: "auditor", id: auditor.id };
    const context = { signer: dependencies.signer, exportedBy, accessId, now: toInstant(now) };
    const controller = new AbortController();
    const options = { ...toReadOptions(ctx, dependencies, controller.signal), ...context };
    const lines = await exportClinic(query, options).catch(throwApiError);
    await streamLines(ctx, endWithMissingEvents(ctx, lines), controller);
    ctx.attachment(`audit-${query.clinic}.ndjson`);
  };
}

async function* endWithMissingEvents(ctx: AuditContext, lines: AsyncIterable<string>): AsyncGenerator<string, void> {
  try {
    yield* lines;
  } catch (error) {
    if (!(error instanceof MissingEventsError)) throw error;
    ctx.state.log.write("error", { error }, "export ends without a manifest");
    yield `${JSON.stringify({ error: "events_missing", message: error.message })}\n`;
  }
}

function toReadOptions(
  ctx: AuditContext,
  { client, index, dataKeys }: AuditDependencies,
  signal: AbortSignal,
): ReadOptions {
  return { client, index, dataKeys, permittedClinicIds: ctx.state.auditor.clinicIds, signal };
}

async function* toLines(items: ItemStream<unknown>): AsyncGenerator<string, void> {
  let count = 0;
  for (;;) {
    const { done, value } = await items.next();
    if (done) return yield `${JSON.stringify({ end: { count, ...value } })}\n`;
    count += 1;
    yield `${JSON.stringify(value)}\n`;
  }
}

/** Converts the error of a query to an API error. Missing streams and invisible streams get the same 404 response. */
export function throwApiError(error: unknown): never {
  if (error instanceof IndexBehindError) {
    const details = [{ path: "position", message: `the index covers the log up to position ${error.position}` }];
    throw new ApiError(503, "index_behind", { details, headers: { "Retry-After": "2" }, cause: error });
  }
  if (error instanceof DifferentLogError) {
    const details = [{ path: "index", message: error.message }];
    throw new ApiError(503, "different_log", { details, headers: { "Retry-After": "60" }, cause: error });
  }
  if (error instanceof StreamNotFoundError) throw new ApiError(404, "stream_not_found");
  if (error instanceof UnreadableStreamError) throw new ApiError(409, "stream_not_readable", { cause: error });
  throw error;
}
