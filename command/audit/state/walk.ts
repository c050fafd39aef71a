import type { EventStoreDBClient } from "@eventstore/db-client";
import type { RecordedEvent } from "../../../shared/eventstore/log.ts";
import type { MaySee } from "../access/may-see.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import { readStreamEvents } from "../log/read-stream.ts";
import { foldOf } from "./folds.ts";

/** An event, and the state before and after it. Undefined stands for nothing yet. */
export interface Step {
  event: AuditEvent;
  before: unknown;
  after: unknown;
}

/** The stream holds an event that the service itself could not read, so that there is no state from there on. */
export class UnreadableStream extends Error {
  override readonly name = "UnreadableStream";
}

export interface StreamReading {
  client: EventStoreDBClient;
  maySee: MaySee;
}

/**
 * Folds a stream event by event, as the service does, over the events that may be seen and that the test picks.
 *
 * @throws {UnreadableStream}
 * @throws {LogUnavailable}
 */
export async function* walk(
  stream: string,
  { client, maySee }: StreamReading,
  picks: (event: AuditEvent) => boolean = () => true,
): AsyncGenerator<Step, void> {
  const fold = foldOf(stream);
  let state: unknown;
  for await (const { shown, parsed } of readStreamEvents(client, stream)) {
    if (!maySee(shown) || !picks(shown)) continue;
    if (!parsed)
      throw new UnreadableStream(`${stream} cannot be read at revision ${shown.revision}: ${shown.problem}`);
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
