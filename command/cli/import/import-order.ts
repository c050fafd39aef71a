import type { PreparedCommand } from "../framework/command.ts";

/** Turn of one command in an import. The command may run only after `ready` has resolved. */
export interface Turn {
  /** Resolves when all commands that must run before this command have ended. */
  ready: Promise<unknown>;
  /** Ends the turn. Must be called when the command has succeeded or failed. */
  end(): void;
}

/** Unfinished commands that refer to one object. */
interface IdUse {
  /** Resolves when the last command that changes the object has ended. Undefined if no command changes the object. */
  writer: Promise<void> | undefined;
  /**
   * One promise for each command that refers to the object without changing it, and that follows the last command that
   * changes the object. Each promise resolves when its command has ended.
   */
  readers: Set<Promise<void>>;
}

/**
 * Creates the order of an import's commands. A command that refers to an object waits for every earlier command that
 * changes the object. A command that changes an object waits for every earlier command that refers to the object. All
 * other commands run concurrently.
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
