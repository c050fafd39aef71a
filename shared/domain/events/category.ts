import type { z } from "zod";

/** A category of streams named `<name>-<id>`, with the schema of each event type in these streams. */
export interface Category<Name extends string = string, Schemas extends EventSchemas = EventSchemas> {
  name: Name;
  events: Schemas;
  /** Returns the id of the stream that an event belongs to. The event's data determines it. */
  getStreamId(event: { type: string; data: unknown }): string;
}

type EventSchemas = Record<string, z.ZodType>;

type EventOfSchemas<Schemas extends EventSchemas> = {
  [Type in keyof Schemas & string]: { type: Type; data: z.output<Schemas[Type]> };
}[keyof Schemas & string];

/** Union of the events of one or several categories, discriminated by `type`. */
export type EventOf<C extends Category> = C extends Category ? EventOfSchemas<C["events"]> : never;

export function defineCategory<Name extends string, Schemas extends EventSchemas>(
  name: Name,
  getStreamId: (event: EventOfSchemas<Schemas>) => string,
  events: Schemas,
): Category<Name, Schemas> {
  return { name, events, getStreamId: getStreamId as Category["getStreamId"] };
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
