import type { EventStoreDBClient } from "@eventstore/db-client";
import { z } from "zod";
import type { RecordedEvent } from "../../../shared/eventstore/log.ts";
import type { IsVisible } from "../access/visibility.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import { readStreamEvents } from "../log/read-stream.ts";
import { streamField } from "../queries/query-fields.ts";
import { type Change, changesBetween } from "./changes.ts";
import { foldOf } from "./folds.ts";

export const replayQuery = z.strictObject({ stream: streamField });

/** An event with its changes and the resulting state. */
export interface ReplayStep {
  event: AuditEvent;
  changes: Change[];
  state: unknown;
}

/** Replays a stream event by event. Throws as {@link walk} does. */
export async function* replay(stream: string, reading: StreamReading): AsyncGenerator<ReplayStep, void> {
  for await (const { event, before, after } of walk(stream, reading)) {
    yield { event, changes: changesBetween(before, after), state: after ?? null };
  }
}

/** An event with the states before and after it. The state before the first event is undefined. */
export interface Step {
  event: AuditEvent;
  before: unknown;
  after: unknown;
}

/** The stream contains an event that this release cannot read, so later states are unknown. */
export class UnreadableStreamError extends Error {
  override readonly name = "UnreadableStreamError";
}

export interface StreamReading {
  client: EventStoreDBClient;
  isVisible: IsVisible;
}

/**
 * Folds the events of a stream that the reader may see and the predicate selects, as the service does.
 *
 * @throws {UnreadableStreamError}
 * @throws {LogUnavailableError}
 */
export async function* walk(
  stream: string,
  { client, isVisible }: StreamReading,
  picks: (event: AuditEvent) => boolean = () => true,
): AsyncGenerator<Step, void> {
  const fold = foldOf(stream);
  let state: unknown;
  for await (const { shown, parsed } of readStreamEvents(client, stream)) {
    if (!isVisible(shown) || !picks(shown)) continue;
    if (!parsed)
      throw new UnreadableStreamError(
        `stream ${stream} cannot be read at revision ${shown.revision}: ${shown.problem}`,
      );
    const place = {
      id: shown.id,
      stream,
      revision: BigInt(shown.revision),
      position: BigInt(shown.position),
    };
    const before = state;
    state = fold(before, { ...parsed, ...place } as RecordedEvent);
    yield { event: shown, before, after: state };
  }
}
