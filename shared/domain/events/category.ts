import type { z } from "zod";
import type { Environment } from "./fields.ts";

/** A category of streams named `<name>-<id>`, with the schema of each event type in these streams. */
export interface Category<Name extends string = string, Schemas extends EventSchemas = EventSchemas> {
  name: Name;
  bound: StreamBound;
  events: Schemas;
  /** Returns the id of the stream that an event belongs to. The event's data determines it. */
  getStreamId(event: { type: string; data: unknown }): string;
}

/** Reason why a category's streams are cheap to read, however often an object changes. */
type StreamBound<Type extends string = string> =
  /** No transition can be repeated, so a stream has only a few events. */
  | { by: "finiteTransitions" }
  /** Each event contains the whole state, so readers need only the last one. */
  | { by: "completeEvents" }
  /** Commands regularly append a summary of the state; see `Aggregate.summarize`. Readers start at the last summary. */
  | { by: "summaries"; completeTypes: readonly Type[] }
  | ChangeLimit<Type>;

/** Limits the number of events in a stream. Further events are refused, except for some types. */
interface ChangeLimit<Type extends string> {
  by: "maxChanges";
  /** Maximum number of events in a stream, by environment. */
  maxChanges: Readonly<Record<Environment, number>>;
  /** Types that are never refused: they end something, or occur only a few times in a stream. */
  except: readonly Type[];
  /** Types that determine the whole state, so that earlier events are not needed. They are never refused either. */
  completeTypes: readonly Type[];
}

export const finiteTransitions = { by: "finiteTransitions" } as const;
export const completeEvents = { by: "completeEvents" } as const;
export const summaries = <Type extends string>(...completeTypes: Type[]) =>
  ({ by: "summaries", completeTypes }) as const;

/** Limits the length of streams to 5,000 events. At the limit, only events of the given types can be appended. */
export function limitExcept<Type extends string>(...except: Type[]): ChangeLimit<Type> {
  return { by: "maxChanges", maxChanges: { production: 5_000, sandbox: 5_000 }, except, completeTypes: [] };
}

type EventSchemas = Record<string, z.ZodType>;

type EventOfSchemas<Schemas extends EventSchemas> = {
  [Type in keyof Schemas & string]: { type: Type; data: z.output<Schemas[Type]> };
}[keyof Schemas & string];

/** Union of the events of one or several categories, discriminated by `type`. */
export type EventOf<C extends Category> = C extends Category ? EventOfSchemas<C["events"]> : never;

/** @param streamId name of the data field that contains the stream's id, or a function that returns the id */
export function defineCategory<Name extends string, Schemas extends EventSchemas>(
  name: Name,
  streamId:
    | NoInfer<keyof EventOfSchemas<Schemas>["data"] & string>
    | ((event: NoInfer<EventOfSchemas<Schemas>>) => string),
  bound: StreamBound<NoInfer<keyof Schemas & string>>,
  events: Schemas,
): Category<Name, Schemas> {
  const getStreamId =
    typeof streamId === "function"
      ? (streamId as Category["getStreamId"])
      : ({ data }: { data: unknown }) => (data as Record<string, string>)[streamId] as string;
  return { name, bound, events, getStreamId };
}

/** Returns the name of a stream: `<category>-<id>`. */
export function toStreamName(category: Category, id: string): string {
  return `${category.name}-${id}`;
}

/** Data of one event type, as in `DataOf<CustomerEvent, "CustomerRegistered">`. */
export type DataOf<Event extends { type: string; data: unknown }, Type extends Event["type"]> = Extract<
  Event,
  { type: Type }
>["data"];
