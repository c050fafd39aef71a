import {
  type AllStreamResolvedEvent,
  type AllStreamSubscription,
  END,
  type EventStoreDBClient,
  eventTypeFilter,
  excludeSystemEvents,
  type Filter,
  type Position,
  START,
  type StreamSubscription,
  streamNameFilter,
} from "@eventstore/db-client";
import { eventually } from "../../support/eventually.ts";
import { type Answer, describeError, describeEvent } from "./answers.ts";
import type { FilterChoice, Sequence, StartChoice } from "./calls.ts";

interface Checkpoint {
  readonly position: Position;
  /** Number of events that arrived before the checkpoint. */
  readonly eventCount: number;
}

/** Records everything that a subscription receives during a sequence of calls. */
export class ComparedSubscription {
  readonly #client: EventStoreDBClient;
  readonly #sequence: Sequence;
  readonly #subscription: AllStreamSubscription | StreamSubscription;
  readonly #checkpoints: Checkpoint[] = [];
  /** Descriptions of events and signals in the order of arrival. */
  readonly #answers: Answer[] = [];
  /** Commit positions of the events. */
  readonly #commits: bigint[] = [];
  #hasCaughtUp = false;
  #hasFailed = false;
  #hasLastEvent = false;
  #isStopped = false;
  #filter: FilterChoice | undefined;
  /** Name of the stream and start revision; undefined for a subscription to all streams. */
  #target: { readonly stream: string; readonly start: StartChoice } | undefined;

  private constructor(
    client: EventStoreDBClient,
    sequence: Sequence,
    open: (addCheckpoint: (position: Position) => void) => AllStreamSubscription | StreamSubscription,
  ) {
    this.#client = client;
    this.#sequence = sequence;
    this.#subscription = open((position) => this.#checkpoints.push({ position, eventCount: this.#commits.length }));
    this.#record();
  }

  static toStream(client: EventStoreDBClient, sequence: Sequence, stream: number, start: StartChoice) {
    const name = sequence.streams[stream]!;
    const fromRevision = start === "start" ? START : start === "end" ? END : BigInt(start);
    const subscription = new ComparedSubscription(client, sequence, () =>
      client.subscribeToStream(name, { fromRevision }),
    );
    subscription.#target = { stream: name, start };
    return subscription;
  }

  static toAll(
    client: EventStoreDBClient,
    sequence: Sequence,
    fromPosition: Position | typeof END,
    filter: FilterChoice,
  ) {
    const subscription = new ComparedSubscription(client, sequence, (addCheckpoint) => {
      const clientFilter = createFilter(filter, sequence, addCheckpoint);
      return client.subscribeToAll({ fromPosition, ...(clientFilter === undefined ? {} : { filter: clientFilter }) });
    });
    subscription.#filter = filter;
    return subscription;
  }

  /** Waits until the subscription has caught up. Returns everything received so far. */
  async catchUp(): Promise<Answer> {
    await eventually("the subscription has caught up", () => this.#hasCaughtUp || this.#hasFailed);
    return [...this.#answers];
  }

  /**
   * Waits for the last event of the sequence. Returns everything that the subscription received, or "stopped" if it was
   * cancelled before. After a cancellation, the number of received events is random.
   *
   * @param lastRevisions last revision of each stream; tombstoned streams are missing
   */
  async finish(lastRevisions: ReadonlyMap<string, bigint>): Promise<Answer> {
    if (this.#isStopped) return "stopped";
    if (this.#isLastEventExpected(lastRevisions)) {
      const hasEnded = () => this.#hasLastEvent || this.#hasFailed;
      await eventually("the last event", hasEnded).catch(() => this.#answers.push("The last event is missing."));
    }
    const answers = [...this.#answers];
    return { answers, checkpoints: await this.#checkCheckpoints(), isOrdered: this.#isOrdered() };
  }

  async stop(): Promise<void> {
    if (this.#isStopped) return;
    this.#isStopped = true;
    await this.#subscription.unsubscribe();
  }

  #isLastEventExpected(lastRevisions: ReadonlyMap<string, bigint>): boolean {
    if (this.#target === undefined) return true;
    const { stream, start } = this.#target;
    const lastRevision = lastRevisions.get(stream);
    return lastRevision !== undefined && (typeof start !== "number" || lastRevision > BigInt(start));
  }

  #record(): void {
    // The two kinds of subscriptions differ only in the type of their events.
    const subscription = this.#subscription as AllStreamSubscription;
    subscription.on("confirmation", () => this.#answers.push("confirmation"));
    subscription.on("caughtUp", () => {
      // If other clients write many events, a subscription falls behind and catches up again.
      if (!this.#hasCaughtUp) this.#answers.push("caughtUp");
      this.#hasCaughtUp = true;
    });
    subscription.on("data", (event: AllStreamResolvedEvent) => this.#addEvent(event));
    subscription.on("error", (error: Error) => {
      this.#hasFailed = true;
      this.#answers.push(describeError(error, this.#sequence));
    });
    subscription.on("end", () => this.#answers.push("end"));
  }

  #addEvent(event: AllStreamResolvedEvent): void {
    const { streamId = "", type } = event.event ?? {};
    if (!this.#sequence.isOwnStream(streamId)) return;
    this.#answers.push(describeEvent(event, this.#sequence));
    this.#commits.push(event.event?.position?.commit ?? -1n);
    const isLast = type === this.#sequence.lastType;
    this.#hasLastEvent ||= isLast && streamId === (this.#target?.stream ?? this.#sequence.lastStream);
  }

  #isOrdered(): boolean {
    return this.#commits.every((commit, index) => index === 0 || commit > this.#commits[index - 1]!);
  }

  /**
   * Subscribes again from the last checkpoint. The new subscription must receive exactly the events after the
   * checkpoint. Checkpoints of two servers cannot be compared, because their positions differ.
   */
  async #checkCheckpoints(): Promise<Answer> {
    const commits = this.#checkpoints.map(({ position }) => position.commit);
    const isOrdered = commits.every((commit, index) => index === 0 || commit >= commits[index - 1]!);
    const last = this.#checkpoints.findLast(({ eventCount }) => eventCount < this.#commits.length);
    if (last === undefined || this.#filter === undefined) return { isOrdered, isComplete: true };
    const resumed = ComparedSubscription.toAll(this.#client, this.#sequence, last.position, this.#filter);
    const hasEnded = () => resumed.#hasLastEvent || resumed.#hasFailed;
    await eventually("the last event", hasEnded).catch(() => resumed.#commits.push(-1n));
    await resumed.stop();
    return { isOrdered, isComplete: String(resumed.#commits) === String(this.#commits.slice(last.eventCount)) };
  }
}

/** Creates a filter for the client. Every filter includes the events at the end of the sequence. */
function createFilter(
  { kind, checkpointInterval, maxSearchWindow }: FilterChoice,
  sequence: Sequence,
  addCheckpoint: (position: Position) => void,
): Filter | undefined {
  const options = {
    checkpointInterval,
    ...(maxSearchWindow === undefined ? {} : { maxSearchWindow }),
    checkpointReached: (_: unknown, position: Position) => addCheckpoint(position),
  };
  switch (kind) {
    case "none":
      return undefined;
    case "streamPrefix":
      return streamNameFilter({ prefixes: [sequence.prefix, "other"], ...options });
    case "streamRegex":
      return streamNameFilter({ regex: `^${sequence.prefix}-(0|last)$`, ...options });
    case "typePrefix":
      return eventTypeFilter({ prefixes: ["Alpha"], ...options });
    case "typeRegex":
      return eventTypeFilter({ regex: "^Alpha(Beta|Last)?$", ...options });
    case "noSystemEvents":
      return excludeSystemEvents(options);
  }
}
