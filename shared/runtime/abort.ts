/**
 * Calls a listener once when the signal aborts, or immediately if the signal has already aborted. This replaces
 * `AbortSignal.any`, which leaks memory on Node 20: a long-lived signal retains every derived signal that has a
 * listener.
 *
 * @returns a function that removes the listener; call it when the work is done
 */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  if (signal.aborted) {
    listener();
    return () => {};
  }
  signal.addEventListener("abort", listener, { once: true });
  return () => signal.removeEventListener("abort", listener);
}

/** Waits until the work ends or the signal aborts. After an abort, the work continues and the result is undefined. */
export function waitUnlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    // `Promise.race` is not used, because a long-lived promise would retain the result of every race.
    const removeListener = onAbort(signal, () => resolve(undefined));
    promise.then(resolve, reject).finally(removeListener);
  });
}

/**
 * Runs a group of tasks concurrently. All tasks receive the same inner signal. The inner signal aborts when any task
 * ends or throws, or when the outer signal aborts.
 *
 * @throws the first error, after all tasks have ended
 */
export async function runTaskGroup(
  signal: AbortSignal,
  tasks: readonly ((signal: AbortSignal) => Promise<void>)[],
): Promise<void> {
  const groupController = new AbortController();
  const abortGroup = () => groupController.abort();
  const removeListener = onAbort(signal, abortGroup);
  const failures: unknown[] = [];
  const runTask = async (task: (signal: AbortSignal) => Promise<void>) => {
    try {
      await task(groupController.signal);
    } catch (error) {
      failures.push(error);
    } finally {
      abortGroup();
    }
  };
  try {
    await Promise.all(tasks.map(runTask));
  } finally {
    removeListener();
  }
  if (failures.length > 0) throw failures[0];
}
