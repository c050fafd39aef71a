/**
 * Waits for a call, but not for long. A call that is late goes on; its outcome is ignored.
 *
 * @param milliseconds time that it may take
 * @throws what the call throws, and an error that says that there was no answer in time
 */
export async function within<T>(milliseconds: number, call: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${milliseconds} ms`)), milliseconds);
  });
  try {
    return await Promise.race([call, late]);
  } finally {
    clearTimeout(timer);
  }
}
