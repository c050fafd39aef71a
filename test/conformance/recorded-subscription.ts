import type {
  AllStreamResolvedEvent,
  AllStreamSubscription,
  EventType,
  ResolvedEvent,
  StreamSubscription,
} from "@eventstore/db-client";

type ReceivedEvent = ResolvedEvent<EventType> | AllStreamResolvedEvent;

export class RecordedSubscription {
  readonly events: ReceivedEvent[] = [];
  /** Received events and signals by name, in order: "confirmation", "caughtUp", "event", "error" or "end". */
  readonly receivedNames: string[] = [];
  readonly errors: Error[] = [];
  readonly #subscription: AllStreamSubscription | StreamSubscription;

  constructor(subscription: AllStreamSubscription | StreamSubscription) {
    this.#subscription = subscription;
    // The two kinds of subscriptions differ only in the type of their events.
    const stream = subscription as AllStreamSubscription;
    stream.on("confirmation", () => this.receivedNames.push("confirmation"));
    stream.on("caughtUp", () => this.receivedNames.push("caughtUp"));
    stream.on("data", (event) => {
      this.receivedNames.push("event");
      this.events.push(event);
    });
    stream.on("error", (error: Error) => {
      this.receivedNames.push("error");
      this.errors.push(error);
    });
    stream.on("end", () => this.receivedNames.push("end"));
  }

  get hasCaughtUp(): boolean {
    return this.receivedNames.includes("caughtUp");
  }

  /** The number `n` from the data of each received event. */
  get numbers(): number[] {
    return this.events.map(({ event }) => (event!.data as { n: number }).n);
  }

  stop(): Promise<void> {
    return this.#subscription.unsubscribe();
  }
}
