/** A call took longer than its time limit. */
export class TimeoutError extends Error {
  override readonly name = "TimeoutError";
}

/**
 * Waits for a call, up to a time limit. A call that is late continues.
 *
 * @param milliseconds the time limit
 * @throws what the call throws; {TimeoutError} after the time limit
 */
export async function withTimeout<T>(milliseconds: number, call: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TimeoutError(`no answer within ${milliseconds} ms`)), milliseconds);
  });
  try {
    return await Promise.race([call, late]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Waits for work to end, up to a time limit: a server that does not answer does not answer a goodbye either. Work that
 * is late continues.
 *
 * @returns whether the work ended in time
 * @throws what the work throws in time
 */
export async function settlesWithin(work: Promise<unknown>, milliseconds: number): Promise<boolean> {
  try {
    await withTimeout(milliseconds, work);
    return true;
  } catch (error) {
    if (error instanceof TimeoutError) return false;
    throw error;
  }
}
