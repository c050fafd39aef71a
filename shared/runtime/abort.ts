/**
 * Calls a listener once when the signal aborts; immediately if it has already aborted. `AbortSignal.any` is not used,
 * because it leaks on Node 20: a long-lived signal keeps every derived signal that has a listener.
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

/** Waits for work that may take long, or until the signal aborts. Then the work continues, and the result is undefined. */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    // The listener is removed each time: a race against one long-lived promise would keep every result for as long.
    const remove = onAbort(signal, () => resolve(undefined));
    work.then(resolve, reject).finally(remove);
  });
}
