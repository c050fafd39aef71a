import type {
  AllStreamResolvedEvent,
  AllStreamSubscription,
  EventType,
  ResolvedEvent,
  StreamSubscription,
} from "@eventstore/db-client";

type ReceivedEvent = ResolvedEvent<EventType> | AllStreamResolvedEvent;

/** Records the events and signals of a subscription. */
export class RecordedSubscription {
  readonly events: ReceivedEvent[] = [];
  /** Names of the received signals and events in order, for example "confirmation" or "event". */
  readonly received: string[] = [];
  readonly errors: Error[] = [];
  readonly #subscription: AllStreamSubscription | StreamSubscription;

  constructor(subscription: AllStreamSubscription | StreamSubscription) {
    this.#subscription = subscription;
    // The two kinds of subscriptions differ only in the type of their events.
    const stream = subscription as AllStreamSubscription;
    stream.on("confirmation", () => this.received.push("confirmation"));
    stream.on("caughtUp", () => this.received.push("caughtUp"));
    stream.on("fellBehind", () => this.received.push("fellBehind"));
    stream.on("data", (event) => {
      this.received.push("event");
      this.events.push(event);
    });
    stream.on("error", (error: Error) => {
      this.received.push("error");
      this.errors.push(error);
    });
    stream.on("end", () => this.received.push("end"));
  }

  get hasCaughtUp(): boolean {
    return this.received.includes("caughtUp");
  }

  /** The number `n` from the data of each received event. */
  get numbers(): number[] {
    return this.events.map(({ event }) => (event!.data as { n: number }).n);
  }

  stop(): Promise<void> {
    return this.#subscription.unsubscribe();
  }
}
