import type { Call } from "../framework/command.ts";

/** A command's turn among others. */
export interface Turn {
  /** Resolves when everything that it must follow is over. */
  ready: Promise<unknown>;
  /** To be called when it is over, well or not. */
  end(): void;
}

interface Access {
  writer: Promise<void> | undefined;
  readers: Set<Promise<void>>;
}

/**
 * Keeps commands that touch the same thing in the order in which they are entered, and lets all others run side by
 * side: a command follows those that change what it names, and those that name what it changes.
 */
export function createOrder(): (call: Pick<Call, "changes" | "ids">) => Turn {
  const accesses = new Map<string, Access>();

  return ({ changes, ids }) => {
    let resolve = () => {};
    const ended = new Promise<void>((done) => {
      resolve = done;
    });
    const before: (Promise<void> | undefined)[] = [];
    for (const id of ids) {
      const access = accesses.get(id) ?? { writer: undefined, readers: new Set() };
      accesses.set(id, access);
      before.push(access.writer);
      if (id === changes) {
        before.push(...access.readers);
        access.writer = ended;
        access.readers = new Set();
      } else {
        access.readers.add(ended);
      }
    }
    const end = () => {
      resolve();
      for (const id of ids) {
        const access = accesses.get(id);
        if (!access) continue;
        access.readers.delete(ended);
        if (access.writer === ended) access.writer = undefined;
        if (!access.writer && access.readers.size === 0) accesses.delete(id);
      }
    };
    return { ready: Promise.all(before), end };
  };
}
