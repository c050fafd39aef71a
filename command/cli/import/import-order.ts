import type { Call } from "../framework/command.ts";

/** The turn of one command in the order of all commands. */
export interface Turn {
  /** Resolves when all commands that must come first have ended. */
  ready: Promise<unknown>;
  /** Ends the turn, whether the command succeeded or failed. */
  end(): void;
}

interface Access {
  writer: Promise<void> | undefined;
  readers: Set<Promise<void>>;
}

/**
 * Keeps commands about the same object in order and lets all other commands run concurrently. A command waits for
 * earlier commands that change an id it names, and for earlier commands that name the id it changes.
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
