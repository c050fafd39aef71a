import type {
  AllStreamResolvedEvent,
  AllStreamSubscription,
  EventType,
  ResolvedEvent,
  StreamSubscription,
} from "@eventstore/db-client";

type Seen = ResolvedEvent<EventType> | AllStreamResolvedEvent;

/** Records the events and signals of a subscription. */
export class RecordedSubscription {
  readonly events: Seen[] = [];
  /** Names of the received signals and events in order, for example "confirmation" or "event". */
  readonly order: string[] = [];
  readonly errors: Error[] = [];
  readonly #subscription: AllStreamSubscription | StreamSubscription;

  constructor(subscription: AllStreamSubscription | StreamSubscription) {
    this.#subscription = subscription;
    // Both kinds of subscriptions differ only in the type of their events.
    const stream = subscription as AllStreamSubscription;
    stream.on("confirmation", () => this.order.push("confirmation"));
    stream.on("caughtUp", () => this.order.push("caughtUp"));
    stream.on("data", (event) => {
      this.order.push("event");
      this.events.push(event);
    });
    stream.on("error", (error: Error) => {
      this.order.push("error");
      this.errors.push(error);
    });
    stream.on("end", () => this.order.push("end"));
  }

  get caughtUp(): boolean {
    return this.order.includes("caughtUp");
  }

  /** The number `n` from the data of each received event. */
  get numbers(): number[] {
    return this.events.map(({ event }) => (event!.data as { n: number }).n);
  }

  stop(): Promise<void> {
    return this.#subscription.unsubscribe();
  }
}
