import type { CopyServer } from "./copy-server.ts";
import type { EncodedEvent, StoredEvent } from "./stored-event.ts";

/** Events at the same place of two logs. An event is undefined if its log has ended before this place. */
export interface EventPair {
  source: EncodedEvent | undefined;
  target: EncodedEvent | undefined;
}

/** Reads both logs from where their readers are to the end, event by event. */
export async function* readPairs(source: CopyServer, target: CopyServer): AsyncGenerator<EventPair, void> {
  let [hasSourceEnded, hasTargetEnded] = [false, false];
  for (;;) {
    const pair: EventPair = {
      source: hasSourceEnded ? undefined : await source.reader.next(),
      target: hasTargetEnded ? undefined : await target.reader.next(),
    };
    hasSourceEnded ||= !pair.source;
    hasTargetEnded ||= !pair.target;
    if (hasSourceEnded && hasTargetEnded) return;
    yield pair;
  }
}

/**
 * Describes the first difference between two logs.
 *
 * @param count number of equal events before the difference
 */
export function describeDifference({ source, target }: EventPair, count: number): string {
  if (!target) return `the target ends after ${count} events, but the source continues with ${describeEvent(source)}`;
  if (!source) return `the source ends after ${count} events, but the target continues with ${describeEvent(target)}`;
  return `after ${count} equal events, the source continues with ${describeEvent(source)}, but the target with ${describeEvent(target)}${describeContent(source, target)}`;
}

function describeEvent(event: StoredEvent | undefined): string {
  return `revision ${event?.revision} of stream ${event?.stream}`;
}

/** Says what differs if both events are at the same revision of the same stream. */
function describeContent(source: StoredEvent, target: StoredEvent): string {
  if (source.stream !== target.stream || source.revision !== target.revision) return "";
  const differingFields = (["id", "type", "contentType", "data", "metadata"] as const).filter((name) => {
    const [sourceValue, targetValue] = [source[name], target[name]];
    return Buffer.compare(Buffer.from(sourceValue), Buffer.from(targetValue)) !== 0;
  });
  return ` with another ${differingFields.join(", ")}`;
}
