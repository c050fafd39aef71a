import type { PreparedCommand } from "../domain-command.ts";

/** A command of an import that may run only after `ready` has resolved. */
interface QueuedCommand {
  /** Resolves when all commands that must run before this command have ended. */
  ready: Promise<unknown>;
  /** Must be called when the command has succeeded or failed. */
  finish(): void;
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
 * Creates the queue of an import's commands, which keeps the order of dependent commands. A command that refers to an object waits for every earlier command that
 * changes the object. A command that changes an object waits for every earlier command that refers to the object. All
 * other commands run concurrently.
 */
export function createCommandQueue(): (command: Pick<PreparedCommand, "changedId" | "ids">) => QueuedCommand {
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
    const finish = () => {
      resolve();
      for (const id of ids) {
        const idUse = idUses.get(id);
        if (!idUse) continue;
        idUse.readerEnds.delete(completion);
        if (idUse.writerEnd === completion) idUse.writerEnd = undefined;
        if (!idUse.writerEnd && idUse.readerEnds.size === 0) idUses.delete(id);
      }
    };
    return { ready: Promise.all(predecessorEnds), finish };
  };
}

/** Maximum number of lines in progress, including lines that wait for an earlier line. */
const MAX_LINES = 256;

/**
 * Maximum total length of the lines in progress, in characters. A longer line is applied alone. The limit bounds the
 * memory, because a line can be as long as 1 MiB.
 */
const MAX_CHARACTERS = 8 * 1024 * 1024;

export class LinesInProgress {
  readonly #lines = new Set<Promise<void>>();
  #characters = 0;
  #resume = () => {};

  /** Waits until a line of this length may start. Must not be called again before it has resolved. */
  async waitForRoom(characterCount: number): Promise<void> {
    while (
      this.#lines.size >= MAX_LINES ||
      (this.#lines.size > 0 && this.#characters + characterCount > MAX_CHARACTERS)
    )
      await new Promise<void>((resolve) => {
        this.#resume = resolve;
      });
  }

  add(characterCount: number, completion: Promise<void>): void {
    this.#characters += characterCount;
    const trackedCompletion = completion.then(() => {
      this.#lines.delete(trackedCompletion);
      this.#characters -= characterCount;
      this.#resume();
    });
    this.#lines.add(trackedCompletion);
  }

  async waitForEnd(): Promise<void> {
    await Promise.all(this.#lines);
  }
}
