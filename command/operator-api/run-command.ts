import type Koa from "koa";
import { z } from "zod";
import { DomainError } from "../../shared/domain/domain-error.ts";
import type { CatalogEvent } from "../../shared/domain/events/catalog.ts";
import { toStreamName } from "../../shared/domain/events/category.ts";
import { deriveOperatorRequestId } from "../../shared/domain/events/ids.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import type { CommandOutcome, StaffCommand } from "../operations/define-command.ts";
import { listProblems } from "../operations/list-problems.ts";
import { parseIdempotentRequest } from "../partner-api/errors.ts";
import type { OperatorAppOptions } from "./app.ts";
import { findActingMember, type OperatorState, requireOwnRights, requireScope } from "./authorize.ts";

/** Returns the schema of a command's body. The id of the object that the command creates can be omitted. */
export function createBodySchema({ input, creates }: StaffCommand): StaffCommand["input"] {
  const newId = creates === undefined ? undefined : input.shape[creates];
  return newId ? z.strictObject({ ...input.shape, [creates as string]: z.exactOptional(newId) }) : input;
}

/** Thrown by a read of the command's stream if it contains events of the same request. */
class RepeatedRequestError extends Error {
  override readonly name = "RepeatedRequestError";
  readonly events: readonly RecordedEvent[];

  constructor(events: readonly RecordedEvent[]) {
    super("the request is repeated");
    this.events = events;
  }
}

/**
 * Handles a request to run a command. The events that a command records identify a repeated request, so no table of
 * requests is needed. If the body omits the id of a new object, the id is derived from the idempotency key.
 */
export function runCommand(
  command: StaffCommand,
  { dependencies, requestHash, brand }: OperatorAppOptions,
): Koa.Middleware<OperatorState> {
  const { name, creates, category } = command;
  const schema = createBodySchema(command);
  return async (ctx) => {
    const { operator, correlationId, now, traceparent, signal } = ctx.state;
    const { body, idempotencyKey } = parseIdempotentRequest(ctx, schema, 422);
    const newId = deriveOperatorRequestId("object", operator.id, name, idempotencyKey);
    const values: Record<string, unknown> = { ...(creates !== undefined && { [creates]: newId }), ...body };
    const clinicId = values.clinicId as string;
    requireScope(operator, name, clinicId);
    const member = await findActingMember(dependencies.log, ctx, command, clinicId, brand);
    const stream = toStreamName(category, command.getStreamId(values) as string);
    const requestId = deriveOperatorRequestId("request", operator.id, name, idempotencyKey);
    const log = createRequestLog(dependencies.log, stream, requestId);
    const fields = Object.entries(ctx.request.body as object).sort(([a], [b]) => (a < b ? -1 : 1));
    const request = JSON.stringify([member?.id ?? null, fields]);
    const actor = {
      ...{ type: "operator" as const, id: operator.id },
      ...(member && { onBehalfOf: member.userId }),
    };
    const context = {
      ...{ actor, clinicId: null, environment: null, correlationId, causationId: requestId },
      ...{ requestHash: requestHash.hash(request), now, traceparent, signal },
    };
    try {
      const earlierEvents = await log.read(stream);
      const branchId =
        values.branchId ?? earlierEvents.map(({ data }) => "branchId" in data && data.branchId).find(Boolean);
      requireOwnRights(command, values, branchId, member);
      const outcome = await command.run({ ...dependencies, log }, values, context);
      sendOutcome(ctx, command, values, outcome);
    } catch (error) {
      if (error instanceof DomainError) throw toRefusal(error, command);
      if (!(error instanceof RepeatedRequestError)) throw error;
      const { events } = error;
      const hashes = requestHash.listHashes(request);
      if (!events.every(({ metadata }) => hashes.includes(metadata.requestHash ?? "")))
        throw new ApiError(409, "idempotency_conflict");
      if (!command.isImportable) throw new ApiError(409, "secret_already_shown");
      ctx.set("Idempotent-Replayed", "true");
      sendOutcome(ctx, command, values, { events, position: events.at(-1)?.position });
    }
  };
}

/** The search for events of the same request ends when it has read at least this number of events. */
const MAX_SEARCHED_EVENTS = 200;

/** Creates an event log whose reads throw {@link RepeatedRequestError} if they find events of the same request. */
function createRequestLog(log: EventLog, ownStream: string, requestId: string): EventLog {
  return {
    ...log,
    async read<Event extends CatalogEvent>(stream: string, maxRevision?: bigint, signal?: AbortSignal) {
      const events = await log.read<Event>(stream, maxRevision, signal);
      let [segment, count] = [events, 0];
      while (stream === ownStream && segment[0]) {
        const ownEvents = segment.filter(({ metadata }) => metadata.$causationId === requestId);
        if (ownEvents.length > 0) throw new RepeatedRequestError(ownEvents as RecordedEvent[]);
        count += segment.length;
        if (segment[0].revision === 0n || count >= MAX_SEARCHED_EVENTS) break;
        // A read begins with the last summary.
        segment = await log.read<Event>(stream, segment[0].revision - 1n, signal);
      }
      return events;
    },
  };
}

function sendOutcome(
  ctx: Koa.ParameterizedContext<OperatorState>,
  { resultId, creates, getStreamId }: StaffCommand,
  values: Record<string, unknown>,
  { events, position, ids, secrets }: CommandOutcome,
): void {
  ctx.state.logPosition = position;
  ctx.status = creates !== undefined && events.length > 0 ? 201 : 200;
  ctx.body = {
    ok: true,
    ...{ [resultId]: creates === undefined ? getStreamId(values) : values[creates], ...ids },
    events: events.map(({ type }) => type),
    position: position === undefined ? null : String(position),
    ...secrets,
  };
}

function toRefusal(error: DomainError, command: StaffCommand): ApiError {
  const status = error.code === "validation_failed" ? 422 : 409;
  return new ApiError(status, error.code, { details: listProblems(error, command), cause: error });
}
