import type { PreparedCommand } from "../framework/command.ts";

/** Turn of one command in an import. A command runs between `ready` and `end`. */
export interface Turn {
  /** Resolves when all commands that must run before this command have ended. */
  ready: Promise<unknown>;
  /** Ends the turn. Must be called after success and after failure. */
  end(): void;
}

/** Unfinished commands that name one id. */
interface IdUse {
  /** End of the last command that changes the object with the id. */
  writer: Promise<void> | undefined;
  /** Ends of all later commands that only refer to the id. */
  readers: Set<Promise<void>>;
}

/**
 * Creates the order of an import's commands. Commands about the same object run in order. All other commands run
 * concurrently. A command waits for every earlier command that changes one of its ids, and for every earlier command
 * that names the id of the object that it changes.
 */
export function createImportOrder(): (call: Pick<PreparedCommand, "changedId" | "ids">) => Turn {
  const uses = new Map<string, IdUse>();

  return ({ changedId, ids }) => {
    let resolve = () => {};
    const ended = new Promise<void>((done) => {
      resolve = done;
    });
    const predecessors: (Promise<void> | undefined)[] = [];
    for (const id of ids) {
      const use = uses.get(id) ?? { writer: undefined, readers: new Set() };
      uses.set(id, use);
      predecessors.push(use.writer);
      if (id === changedId) {
        predecessors.push(...use.readers);
        use.writer = ended;
        use.readers = new Set();
      } else {
        use.readers.add(ended);
      }
    }
    const end = () => {
      resolve();
      for (const id of ids) {
        const use = uses.get(id);
        if (!use) continue;
        use.readers.delete(ended);
        if (use.writer === ended) use.writer = undefined;
        if (!use.writer && use.readers.size === 0) uses.delete(id);
      }
    };
    return { ready: Promise.all(predecessors), end };
  };
}
