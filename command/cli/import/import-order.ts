import type { PreparedCommand } from "../domain-command.ts";

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
  writerEnd: Promise<void> | undefined;
  /**
   * One promise for each command that refers to the object without changing it, and that follows the last command that
   * changes the object. Each promise resolves when its command has ended.
   */
  readerEnds: Set<Promise<void>>;
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
    const predecessorEnds: (Promise<void> | undefined)[] = [];
    for (const id of ids) {
      const idUse = idUses.get(id) ?? { writerEnd: undefined, readerEnds: new Set() };
      idUses.set(id, idUse);
      predecessorEnds.push(idUse.writerEnd);
      if (id === changedId) {
        predecessorEnds.push(...idUse.readerEnds);
        idUse.writerEnd = completion;
        idUse.readerEnds = new Set();
      } else {
        idUse.readerEnds.add(completion);
      }
    }
    const end = () => {
      resolve();
      for (const id of ids) {
        const idUse = idUses.get(id);
        if (!idUse) continue;
        idUse.readerEnds.delete(completion);
        if (idUse.writerEnd === completion) idUse.writerEnd = undefined;
        if (!idUse.writerEnd && idUse.readerEnds.size === 0) idUses.delete(id);
      }
    };
    return { ready: Promise.all(predecessorEnds), end };
  };
}
