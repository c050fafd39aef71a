import { z } from "zod";
import type { RecordedEvent } from "../../../shared/eventstore/log.ts";
import type { DataKeys } from "../../../shared/personal-data/data-keys.ts";
import { isDecryptionError } from "../../../shared/personal-data/decrypt-events.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import { readStreamEvents } from "../log/read-stream.ts";
import { revealAuditEvent, revealRecordedEvent } from "../log/reveal-event.ts";
import type { EventReadOptions } from "../queries/list-events.ts";
import { streamField } from "../queries/query-fields.ts";
import { type Change, findChanges } from "./changes.ts";
import { getFold } from "./folds.ts";

export const replayQuerySchema = z.strictObject({ stream: streamField });

/** An event, the fields that the event changed, and the resulting state. */
export interface ReplayStep {
  event: AuditEvent;
  changes: Change[];
  state: unknown;
}

/**
 * Yields each event of a stream, with the fields that the event changed and the resulting state. Throws the errors of
 * {@link foldStream}.
 */
export async function* replayStream(stream: string, readOptions: StreamReadOptions): AsyncGenerator<ReplayStep, void> {
  for await (const { event, stateBefore, stateAfter } of foldStream(stream, readOptions)) {
    yield { event, changes: findChanges(stateBefore, stateAfter), state: stateAfter ?? null };
  }
}

/** An event, and the states of the stream before and after the event. The state before the first event is undefined. */
export interface StateTransition {
  event: AuditEvent;
  stateBefore: unknown;
  stateAfter: unknown;
}

/** The stream contains an event that this release cannot read, so the states after the event are unknown. */
export class UnreadableStreamError extends Error {
  override readonly name = "UnreadableStreamError";
}

/** Source of the events, and the filter that limits which events the reader may see. */
export type StreamReadOptions = Pick<EventReadOptions, "client" | "dataKeys" | "isVisible">;

/**
 * Folds the events of a stream with the same function as the service's commands. Events that the reader may not see and
 * events that the predicate excludes are skipped.
 *
 * @throws {UnreadableStreamError} at an event that this release cannot read
 * @throws {LogUnavailableError} if the event log cannot be read
 */
export async function* foldStream(
  stream: string,
  { client, dataKeys, isVisible }: StreamReadOptions,
  isIncluded: (event: AuditEvent) => boolean = () => true,
): AsyncGenerator<StateTransition, void> {
  const fold = getFold(stream);
  let state: unknown;
  for await (const { auditEvent, catalogEvent } of readStreamEvents(client, stream)) {
    if (!isVisible(auditEvent) || !isIncluded(auditEvent)) continue;
    const { id, revision, position, problem } = auditEvent;
    if (!catalogEvent)
      throw new UnreadableStreamError(`stream ${stream} cannot be read at revision ${revision}: ${problem}`);
    const recordedFields = { id, stream, revision: BigInt(revision), position: BigInt(position) };
    const stateBefore = state;
    state = fold(stateBefore, await reveal({ ...catalogEvent, ...recordedFields } as RecordedEvent, dataKeys));
    yield { event: await revealAuditEvent(auditEvent, dataKeys), stateBefore, stateAfter: state };
  }
}

/** @throws {UnreadableStreamError} if the event's personal data cannot be decrypted */
async function reveal(event: RecordedEvent, dataKeys: DataKeys): Promise<RecordedEvent> {
  try {
    return await revealRecordedEvent(event, dataKeys);
  } catch (error) {
    if (!isDecryptionError(error)) throw error;
    const { stream, revision } = event;
    throw new UnreadableStreamError(`stream ${stream} cannot be read at revision ${revision}: ${error.message}`);
  }
}
