import type { Call } from "../framework/command.ts";

/** A command's turn among others. */
export interface Turn {
  /** Resolves when everything that it must follow is over. */
  come: Promise<unknown>;
  /** To be called when it is over, well or not. */
  over(): void;
}

interface Place {
  writer: Promise<void> | undefined;
  readers: Set<Promise<void>>;
}

/**
 * Keeps commands that touch the same thing in the order in which they are entered, and lets all others run side by
 * side: a command follows those that change what it names, and those that name what it changes.
 */
export function createOrder(): (call: Pick<Call, "changes" | "ids">) => Turn {
  const places = new Map<string, Place>();

  return ({ changes, ids }) => {
    let resolve = () => {};
    const end = new Promise<void>((done) => {
      resolve = done;
    });
    const before: (Promise<void> | undefined)[] = [];
    for (const id of ids) {
      const place = places.get(id) ?? { writer: undefined, readers: new Set() };
      places.set(id, place);
      before.push(place.writer);
      if (id === changes) {
        before.push(...place.readers);
        place.writer = end;
        place.readers = new Set();
      } else {
        place.readers.add(end);
      }
    }
    const over = () => {
      resolve();
      for (const id of ids) {
        const place = places.get(id);
        if (!place) continue;
        place.readers.delete(end);
        if (place.writer === end) place.writer = undefined;
        if (!place.writer && place.readers.size === 0) places.delete(id);
      }
    };
    return { come: Promise.all(before), over };
  };
}
