interface CallerReads {
  runningCount: number;
  /** Functions that start the waiting reads, in order of arrival. */
  waitingReads: (() => void)[];
}

/** Runs a read as soon as fewer reads of the caller than the limit are running. Throws the error of the read. */
export type RunForCaller = <Result>(caller: string, read: () => Promise<Result>) => Promise<Result>;

/**
 * Limits how many reads of one caller run at once. Otherwise the slow reads of one caller could occupy all connections
 * to Postgres, and the reads of all other callers would fail.
 */
export function limitCallerReads(maxRunningReads: number): RunForCaller {
  const readsByCaller = new Map<string, CallerReads>();
  return async (caller, read) => {
    const reads = readsByCaller.get(caller) ?? { runningCount: 0, waitingReads: [] };
    readsByCaller.set(caller, reads);
    if (reads.runningCount < maxRunningReads) reads.runningCount += 1;
    else await new Promise<void>((resolve) => reads.waitingReads.push(resolve));
    try {
      return await read();
    } finally {
      const startNext = reads.waitingReads.shift();
      if (startNext) startNext();
      else reads.runningCount -= 1;
      if (reads.runningCount === 0) readsByCaller.delete(caller);
    }
  };
}
