import type { z } from "zod";

/** A category of streams named `<name>-<id>`, with the schema of each event type in these streams. */
export interface Category<Name extends string = string, Schemas extends EventSchemas = EventSchemas> {
  name: Name;
  events: Schemas;
}

type EventSchemas = Record<string, z.ZodType>;

/** Union of the events of one or several categories, discriminated by `type`. */
export type EventOf<C extends Category> = C extends Category
  ? {
      [Type in keyof C["events"] & string]: { type: Type; data: z.output<C["events"][Type]> };
    }[keyof C["events"] & string]
  : never;

export function defineCategory<Name extends string, Schemas extends EventSchemas>(
  name: Name,
  events: Schemas,
): Category<Name, Schemas> {
  return { name, events };
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
