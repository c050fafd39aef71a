import { binaryEvent, type EventData, jsonEvent } from "@eventstore/db-client";
import type { CallOf, EventChoice } from "./calls.ts";
import type { Sequence } from "./sequence.ts";

/** Texts by content. One event may have 1 MiB, and all events of an append together as well. */
const TEXT_LENGTHS = { large: 350_000, oversized: 1_100_000 };

/** Creates an event of a sequence. */
export function createEvent({ number, type, content, hasMetadata }: EventChoice, sequence: Sequence): EventData {
  const id = sequence.eventIds[number]!;
  const metadata = hasMetadata ? { number } : undefined;
  switch (content) {
    case "bytes":
      return binaryEvent({ id, type, data: Buffer.from([0, 255, number]) });
    case "empty":
      return binaryEvent({ id, type, data: Buffer.alloc(0) });
    case "json":
      return jsonEvent({ id, type, data: { number }, metadata });
    case "array":
      return jsonEvent({ id, type, data: [number], metadata });
    case "text":
      // The client's type excludes texts, but the client sends them.
      return jsonEvent({ id, type, data: "ä €" as unknown as Record<string, unknown>, metadata });
    default:
      return jsonEvent({ id, type, data: { text: "x".repeat(TEXT_LENGTHS[content]) }, metadata });
  }
}

/** Creates an event for a metadata stream. */
export function createRawMetadata({ type, value, isJson }: CallOf<"setRawMetadata">): EventData {
  return isJson
    ? jsonEvent({ type, data: value as Record<string, unknown> })
    : binaryEvent({ type, data: Buffer.from(JSON.stringify(value)) });
}
