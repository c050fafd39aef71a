/**
 * Runs tasks side by side that make sense only together: when one ends or throws, the others are told to end, by the
 * signal that all of them got.
 *
 * @throws what was thrown first, after all have ended
 */
export async function together(
  signal: AbortSignal,
  tasks: readonly ((signal: AbortSignal) => Promise<void>)[],
): Promise<void> {
  const life = new AbortController();
  const end = () => life.abort();
  signal.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
  const failures: unknown[] = [];
  const run = async (task: (signal: AbortSignal) => Promise<void>) => {
    try {
      await task(life.signal);
    } catch (error) {
      failures.push(error);
    } finally {
      end();
    }
  };
  try {
    await Promise.all(tasks.map(run));
  } finally {
    signal.removeEventListener("abort", end);
  }
  if (failures.length > 0) throw failures[0];
}

/** Waits for something that may take long, or until the signal aborts: then it is left alone, and the result is undefined. */
export function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const leave = () => resolve(undefined);
    // Taken off again each time: a race against one long-lived promise would keep every result for as long.
    signal.addEventListener("abort", leave, { once: true });
    if (signal.aborted) leave();
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", leave));
  });
}
