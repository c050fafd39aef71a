export class TimeoutError extends Error {
  override readonly name = "TimeoutError";
}

/**
 * Waits for a call, up to a time limit. A late call continues in the background.
 *
 * @throws {TimeoutError} after the time limit
 * @throws the error of the call
 */
export function withTimeout<T>(milliseconds: number, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new TimeoutError(`no response within ${milliseconds} ms`)), milliseconds);
    promise.then(
      (result) => {
        clearTimeout(timer);
        resolve(result);
      },
      (error) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
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
