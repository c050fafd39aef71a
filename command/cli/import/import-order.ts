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
export function createImportOrder(): (command: Pick<PreparedCommand, "changedId" | "ids">) => Turn {
  const idUses = new Map<string, IdUse>();

  return ({ changedId, ids }) => {
    let resolve = () => {};
    const completion = new Promise<void>((resolvePromise) => {
      resolve = resolvePromise;
    });
    const predecessors: (Promise<void> | undefined)[] = [];
    for (const id of ids) {
      const idUse = idUses.get(id) ?? { writer: undefined, readers: new Set() };
      idUses.set(id, idUse);
      predecessors.push(idUse.writer);
      if (id === changedId) {
        predecessors.push(...idUse.readers);
        idUse.writer = completion;
        idUse.readers = new Set();
      } else {
        idUse.readers.add(completion);
      }
    }
    const end = () => {
      resolve();
      for (const id of ids) {
        const idUse = idUses.get(id);
        if (!idUse) continue;
        idUse.readers.delete(completion);
        if (idUse.writer === completion) idUse.writer = undefined;
        if (!idUse.writer && idUse.readers.size === 0) idUses.delete(id);
      }
    };
    return { ready: Promise.all(predecessors), end };
  };
}
