import { type EventData, type EventStoreDBClient, jsonEvent, NO_STREAM, type Position } from "@eventstore/db-client";
import { eventually } from "../../support/eventually.ts";
import { collect } from "../log-under-test.ts";
import { type Answer, describeError, describeEvent } from "./answers.ts";
import {
  type AppendMethod,
  type Call,
  type CallOf,
  createEvent,
  createRawMetadata,
  KnownIds,
  type Sequence,
} from "./calls.ts";
import { ComparedSubscription } from "./compared-subscription.ts";
import { ServerReads } from "./server-reads.ts";

type AppendOptions = NonNullable<Parameters<EventStoreDBClient["appendToStream"]>[2]>;

interface SentAppend {
  readonly stream: number;
  readonly events: EventData[];
  readonly expectedRevision: NonNullable<AppendOptions["expectedRevision"]>;
}

const APPEND_OPTIONS: Readonly<Record<AppendMethod, AppendOptions>> = {
  batch: {},
  single: { credentials: { username: "admin", password: "changeit" } },
  lenient: {},
  parts: { batchAppendSize: 200 },
};

/** Two clients of one server. `lenientClient` does not throw if an append is refused. */
export interface ServerClients {
  readonly client: EventStoreDBClient;
  readonly lenientClient: EventStoreDBClient;
}

/** Sends a sequence of calls to one server. */
export class ServerRun {
  readonly #clients: ServerClients;
  readonly #sequence: Sequence;
  readonly #reads: ServerReads;
  readonly #lastRevisions = new Map<number, number>();
  readonly #deletedStreams = new Set<number>();
  readonly #tombstonedStreams = new Set<number>();
  readonly #knownIds = new KnownIds();
  readonly #sentAppends: SentAppend[] = [];
  readonly #subscriptions: ComparedSubscription[] = [];
  readonly #returnedPositions: (Position | undefined)[] = [];
  #mayRestoreStream = false;

  private constructor(clients: ServerClients, sequence: Sequence, startPosition: Position) {
    this.#clients = clients;
    this.#sequence = sequence;
    this.#reads = new ServerReads(clients.client, sequence, startPosition);
  }

  static async start(clients: ServerClients, sequence: Sequence): Promise<ServerRun> {
    const { position } = await settle(clients.client, sequence);
    return new ServerRun(clients, sequence, position!);
  }

  async send(call: Call): Promise<Answer> {
    try {
      return await this.#sendOrThrow(call);
    } catch (error) {
      return describeError(error, this.#sequence);
    }
  }

  /** Ends the sequence. Returns all its events, and everything that its subscriptions received. */
  async finish(): Promise<Answer> {
    const lastRevisions = await this.#appendLastEvents();
    const subscriptions: Answer[] = [];
    for (const subscription of this.#subscriptions) subscriptions.push(await subscription.finish(lastRevisions));
    const events = await this.#reads.readOwnEvents();
    const positions = this.#returnedPositions.map((position) =>
      position === undefined ? "none" : events.findIndex(({ event }) => event?.position?.commit === position.commit),
    );
    return { subscriptions, positions, events: events.map((event) => describeEvent(event, this.#sequence)) };
  }

  async stop(): Promise<void> {
    for (const subscription of this.#subscriptions) await subscription.stop();
    // Nothing waits for these promises: they stay pending if a cancelled read has events that nobody has taken.
    void this.#clients.client.dispose();
    void this.#clients.lenientClient.dispose();
  }

  #sendOrThrow(call: Call): Promise<Answer> {
    switch (call.operation) {
      case "append":
        return this.#append(call);
      case "retry":
        return this.#retry(call);
      case "expiredAppend":
        return this.#sendAppend(call.stream, [createEvent(call.event, this.#sequence)], { deadline: 0 });
      case "setMetadata":
      case "setRawMetadata":
        return this.#setMetadata(call);
      case "getMetadata":
        return this.#getMetadata(call.stream);
      case "outlive":
        return this.#outlive(call.stream);
      case "read":
        return this.#reads.readStream(call);
      case "expiredRead":
        return this.#reads.readExpired(call);
      case "readAll":
        return this.#reads.readAll(call);
      case "delete":
      case "tombstone":
        return this.#remove(call);
      case "unsubscribe":
        return this.#unsubscribe(call.age);
      default:
        return this.#subscribe(call);
    }
  }

  get #client(): EventStoreDBClient {
    return this.#clients.client;
  }

  #getStream(stream: number): string {
    return this.#sequence.streams[stream]!;
  }

  #toRevision<Special extends string>(stream: number, expectation: Special | number) {
    if (typeof expectation !== "number") return expectation;
    const revision = (this.#lastRevisions.get(stream) ?? -1) + expectation;
    return revision < 0 ? NO_STREAM : BigInt(revision);
  }

  #append({ stream, expectation, events: choices, method }: CallOf<"append">): Promise<Answer> {
    const events = choices.map((choice) => createEvent(choice, this.#sequence));
    const expectedRevision = this.#toRevision(stream, expectation);
    this.#sentAppends.push({ stream, events, expectedRevision });
    const client = method === "lenient" ? this.#clients.lenientClient : this.#client;
    return this.#sendAppend(stream, events, { ...APPEND_OPTIONS[method], expectedRevision }, client);
  }

  async #sendAppend(
    stream: number,
    events: EventData[],
    options: AppendOptions,
    client = this.#client,
  ): Promise<Answer> {
    const ids = events.map(({ id }) => id);
    if (this.#knownIds.hasReversedIds(stream, ids)) return "EventStoreDB would never answer";
    if (events.length === 0 && this.#deletedStreams.has(stream)) return "EventStoreDB and KurrentDB differ";
    const result = await client.appendToStream(this.#getStream(stream), events, options);
    const revision = Number(result.nextExpectedRevision);
    const lastRevision = this.#lastRevisions.get(stream) ?? -1;
    if (result.success && revision > lastRevision) {
      this.#lastRevisions.set(stream, revision);
      this.#knownIds.add(stream, ids, revision);
    }
    // An empty append has a position in EventStoreDB, but no event has this position.
    if (events.length > 0) this.#returnedPositions.push(result.position);
    if (this.#mayRestoreStream) await this.#settle();
    return { success: result.success, revision: String(revision), hasPosition: result.position !== undefined };
  }

  #retry({ age, expectation, change }: CallOf<"retry">): Promise<Answer> {
    const sentAppend = this.#sentAppends.at(-1 - age);
    if (sentAppend === undefined) return Promise.resolve("nothing to retry");
    const stream = change === "otherStream" ? (sentAppend.stream + 1) % 3 : sentAppend.stream;
    const addedEvent = { number: 0, type: "Added", content: "json", hasMetadata: false } as const;
    const events = {
      none: sentAppend.events,
      otherStream: sentAppend.events,
      reverse: sentAppend.events.toReversed(),
      firstOnly: sentAppend.events.slice(0, 1),
      addEvent: [...sentAppend.events, createEvent(addedEvent, this.#sequence)],
    }[change];
    const expectedRevision =
      expectation === undefined ? sentAppend.expectedRevision : this.#toRevision(stream, expectation);
    return this.#sendAppend(stream, events, { expectedRevision });
  }

  async #setMetadata(call: CallOf<"setMetadata" | "setRawMetadata">): Promise<Answer> {
    const stream = this.#getStream(call.stream);
    // EventStoreDB accepts or refuses the metadata of a tombstoned stream, depending on the content of its caches.
    if (this.#tombstonedStreams.has(call.stream)) return "tombstoned";
    this.#mayRestoreStream = true;
    const result =
      call.operation === "setMetadata"
        ? await this.#client.setStreamMetadata(stream, call.metadata, {
            expectedRevision: this.#toRevision(-1 - call.stream, call.expectation),
          })
        : await this.#client.appendToStream(`$$${stream}`, createRawMetadata(call));
    this.#lastRevisions.set(-1 - call.stream, Number(result.nextExpectedRevision));
    this.#returnedPositions.push(result.position);
    await this.#settle();
    return { revision: String(result.nextExpectedRevision) };
  }

  async #getMetadata(stream: number): Promise<Answer> {
    const { metadata } = await this.#client.getStreamMetadata(this.#getStream(stream));
    return { metadata: metadata ?? "none" };
  }

  /**
   * Waits until all events of a stream are older than `$maxAge`, and then uses the stream. All reads return no event,
   * so the answers do not depend on the time.
   */
  async #outlive(stream: number): Promise<Answer> {
    if (this.#tombstonedStreams.has(stream)) return "tombstoned";
    const setMetadata = (metadata: Readonly<Record<string, unknown>>) =>
      this.#setMetadata({ operation: "setMetadata", stream, expectation: "any", metadata });
    const answers = [await setMetadata({ maxAge: 1 })];
    const read = (isBackwards: boolean) =>
      this.#reads.readStream({
        operation: "read",
        stream,
        isMetadataStream: false,
        start: isBackwards ? "end" : "start",
        isBackwards,
        maxCount: undefined,
        cancelAfter: undefined,
      });
    await eventually("all events are too old", async () => {
      const events = this.#client.readStream(this.#getStream(stream));
      return (await collect(events).catch(() => [])).length === 0;
    });
    for (const isBackwards of [false, true]) answers.push(await read(isBackwards).catch(String));
    const subscription = ComparedSubscription.toStream(this.#client, this.#sequence, stream, "start");
    answers.push(await subscription.catchUp());
    await subscription.stop();
    answers.push(await setMetadata({}));
    return answers;
  }

  async #remove({ operation, stream, expectation }: CallOf<"delete" | "tombstone">): Promise<Answer> {
    this.#mayRestoreStream = true;
    const options = { expectedRevision: this.#toRevision(stream, expectation) };
    const name = this.#getStream(stream);
    const result =
      operation === "delete"
        ? await this.#client.deleteStream(name, options)
        : await this.#client.tombstoneStream(name, options);
    this.#returnedPositions.push(result.position);
    this.#deletedStreams.add(stream);
    if (operation === "tombstone") this.#tombstonedStreams.add(stream);
    return { hasPosition: result.position !== undefined };
  }

  async #subscribe(call: CallOf<"subscribe" | "subscribeToAll">): Promise<Answer> {
    const subscription =
      call.operation === "subscribe"
        ? ComparedSubscription.toStream(this.#client, this.#sequence, call.stream, call.start)
        : ComparedSubscription.toAll(
            this.#client,
            this.#sequence,
            await this.#reads.toPosition(call.start),
            call.filter,
          );
    this.#subscriptions.push(subscription);
    return subscription.catchUp();
  }

  async #unsubscribe(age: number): Promise<Answer> {
    const subscription = this.#subscriptions.at(-1 - age);
    await subscription?.stop();
    return subscription === undefined ? "nothing to stop" : "stopped";
  }

  /**
   * Appends an event to each stream. A subscription that has received this event is complete. Returns the revisions.
   */
  async #appendLastEvents(): Promise<Map<string, bigint>> {
    const revisions = new Map<string, bigint>();
    for (const stream of [...this.#sequence.streams, this.#sequence.lastStream]) {
      const event = jsonEvent({ type: this.#sequence.lastType, data: {} });
      const result = await this.#client.appendToStream(stream, event).catch(() => undefined);
      if (result !== undefined) revisions.set(stream, result.nextExpectedRevision);
    }
    await this.#settle();
    return revisions;
  }

  #settle() {
    return settle(this.#client, this.#sequence);
  }
}

/**
 * Waits until all earlier writes are visible. EventStoreDB acknowledges an append when it is visible. Appends become
 * visible in log order.
 */
function settle(client: EventStoreDBClient, { settlingStream }: Sequence) {
  return client.appendToStream(settlingStream, jsonEvent({ type: "Settled", data: {} }));
}
