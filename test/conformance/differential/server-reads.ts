import {
  BACKWARDS,
  END,
  type EventStoreDBClient,
  FORWARDS,
  type Position,
  type ResolvedEvent,
  START,
} from "@eventstore/db-client";
import { collect } from "../log-under-test.ts";
import { type Answer, describeEvent } from "./answers.ts";
import type { CallOf, Sequence, StartChoice } from "./calls.ts";

interface AllStreamsRange {
  readonly fromPosition: Position | typeof END;
  readonly direction: typeof FORWARDS | typeof BACKWARDS;
}

const BACKWARD_PAGE_EVENTS = 100;

/** Performs the reads of a sequence on one server. Skips events of other clients. */
export class ServerReads {
  readonly #client: EventStoreDBClient;
  readonly #sequence: Sequence;
  readonly #startPosition: Position;

  /** @param startPosition position before the first event of the sequence */
  constructor(client: EventStoreDBClient, sequence: Sequence, startPosition: Position) {
    this.#client = client;
    this.#sequence = sequence;
    this.#startPosition = startPosition;
  }

  readStream(call: CallOf<"read">): Promise<Answer> {
    const { start, isBackwards, maxCount } = call;
    const stream = this.#sequence.streams[call.stream]!;
    const events = this.#client.readStream(call.isMetadataStream ? `$$${stream}` : stream, {
      fromRevision: start === "start" ? START : start === "end" ? END : BigInt(start),
      direction: isBackwards ? BACKWARDS : FORWARDS,
      ...(maxCount === undefined ? {} : { maxCount }),
    });
    return this.#describeEvents(events, call.cancelAfter);
  }

  /** Reads a stream with a deadline that has passed. */
  readExpired({ stream }: CallOf<"expiredRead">): Promise<Answer> {
    return this.#describeEvents(this.#client.readStream(this.#sequence.streams[stream]!, { deadline: 0 }));
  }

  async readAll({ start, isBackwards, maxCount, cancelAfter }: CallOf<"readAll">): Promise<Answer> {
    const options: AllStreamsRange = {
      fromPosition: await this.toPosition(start),
      direction: isBackwards ? BACKWARDS : FORWARDS,
    };
    const isLimitCorrect = maxCount === undefined || (await this.#checkMaxCount(options, maxCount));
    return { isLimitCorrect, ...(await this.#describeEvents(this.#iterateOwnEvents(options), cancelAfter)) };
  }

  /** Converts a start to a log position. "start" is the position before the sequence. */
  async toPosition(start: StartChoice): Promise<Position | typeof END> {
    if (start === "end") return END;
    if (start === "start") return this.#startPosition;
    const events = await this.readOwnEvents();
    return events[start % Math.max(events.length, 1)]?.event?.position ?? this.#startPosition;
  }

  /** Returns all events of the sequence in log order. */
  readOwnEvents(): Promise<ResolvedEvent[]> {
    return collect(this.#iterateOwnEvents({ fromPosition: this.#startPosition, direction: FORWARDS }));
  }

  /** Reads all streams, and yields the events of the sequence. */
  async *#iterateOwnEvents({ fromPosition, direction }: AllStreamsRange): AsyncGenerator<ResolvedEvent> {
    if (direction === FORWARDS) {
      for await (const event of this.#client.readAll({ fromPosition })) if (this.#isOwnEvent(event)) yield event;
      return;
    }
    // Reads pages, so that the read neither returns the events of earlier sequences nor has to be cancelled.
    let position: Position | typeof END | undefined = fromPosition;
    while (position !== undefined) {
      const page = { fromPosition: position, direction, maxCount: BACKWARD_PAGE_EVENTS };
      const events: ResolvedEvent[] = await collect(this.#client.readAll(page));
      yield* events.filter((event) => this.#isOwnEvent(event));
      const oldestEvent = events.at(-1);
      position =
        oldestEvent === undefined || this.#isBeforeSequence(oldestEvent) ? undefined : oldestEvent.event?.position;
    }
  }

  /**
   * Checks that a read with `maxCount` returns the first events of a read without it. The events are not compared with
   * the other server, because they can include events of other clients.
   */
  async #checkMaxCount(options: AllStreamsRange, maxCount: number): Promise<boolean> {
    const events = await collect(this.#client.readAll({ ...options, maxCount }));
    const ownEvents = events.filter((event) => this.#isOwnEvent(event));
    const expectedEvents = await collect(this.#iterateOwnEvents(options));
    const getCommit = (event: ResolvedEvent | undefined) => event?.event?.position?.commit;
    const isPrefix = ownEvents.every((event, index) => getCommit(event) === getCommit(expectedEvents[index]));
    return isPrefix && (events.length === maxCount || ownEvents.length === expectedEvents.length);
  }

  #isOwnEvent({ event }: ResolvedEvent): boolean {
    return this.#sequence.isOwnStream(event?.streamId ?? "");
  }

  #isBeforeSequence({ event }: ResolvedEvent): boolean {
    const commit = event?.position?.commit;
    return commit !== undefined && commit < this.#startPosition.commit;
  }

  /** Describes the events of a read. @param cancelAfter number of events after which the read is cancelled */
  async #describeEvents(events: AsyncIterable<ResolvedEvent>, cancelAfter?: number) {
    const answers: Answer[] = [];
    const commits: bigint[] = [];
    for await (const event of events) {
      answers.push(describeEvent(event, this.#sequence));
      commits.push(event.event?.position?.commit ?? -1n);
      if (answers.length === cancelAfter) break;
    }
    const isAscending = commits.every((commit, index) => index === 0 || commit > commits[index - 1]!);
    const isDescending = commits.every((commit, index) => index === 0 || commit < commits[index - 1]!);
    return { isAscending, isDescending, events: answers };
  }
}
