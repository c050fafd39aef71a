/** The data of one event type of a category: `DataOf<CustomerEvent, "CustomerRegistered">`. */
export type DataOf<Event extends { type: string; data: unknown }, Type extends Event["type"]> = Extract<
  Event,
  { type: Type }
>["data"];
