/** Thrown if a call takes longer than its time limit. */
export class TimeoutError extends Error {
  override readonly name = "TimeoutError";
}

/**
 * Waits for a call, up to a time limit. A late call continues in the background.
 *
 * @throws {TimeoutError} after the time limit
 * @throws the error of the call
 */
export async function withTimeout<T>(milliseconds: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeoutPromise = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TimeoutError(`no response within ${milliseconds} ms`)), milliseconds);
  });
  try {
    return await Promise.race([promise, timeoutPromise]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Waits for work to end, up to a time limit. Late work continues in the background.
 *
 * @returns true if the work ended in time
 * @throws the error of the work
 */
export async function settlesWithin(promise: Promise<unknown>, milliseconds: number): Promise<boolean> {
  try {
    await withTimeout(milliseconds, promise);
    return true;
  } catch (error) {
    if (error instanceof TimeoutError) return false;
    throw error;
  }
}
