/** A call took longer than it may. */
export class Late extends Error {
  override readonly name = "Late";
}

/**
 * Waits for a call, but not for long. A call that is late goes on; its outcome is ignored.
 *
 * @param milliseconds time that it may take
 * @throws what the call throws; {Late} if there is no answer in time
 */
export async function within<T>(milliseconds: number, call: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Late(`no answer within ${milliseconds} ms`)), milliseconds);
  });
  try {
    return await Promise.race([call, late]);
  } finally {
    clearTimeout(timer);
  }
}
