/**
 * Waits for statements that one connection sent at the same time, and returns their results.
 *
 * @throws the error of the first failed statement in the given order. In a transaction, all statements after it fail too
 */
export async function awaitPipelined<Results extends readonly unknown[]>(
  promises: Results,
): Promise<{ -readonly [Index in keyof Results]: Awaited<Results[Index]> }> {
  const outcomes = await Promise.allSettled(promises);
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
  // None is rejected, so this returns at once.
  return Promise.all(promises);
}
