import pg from "pg";

/** SQLSTATE of a statement that Postgres refuses because an earlier statement of the transaction failed. */
const IN_FAILED_TRANSACTION = "25P02";

/**
 * Waits for statements that one connection sent at the same time, and returns their results.
 *
 * @throws the error of the first failed statement. In a transaction, Postgres refuses all later statements; these errors
 *   are ignored
 */
export async function awaitPipelined<Results extends readonly unknown[]>(
  promises: Results,
): Promise<{ -readonly [Index in keyof Results]: Awaited<Results[Index]> }> {
  const outcomes = await Promise.allSettled(promises);
  const errors = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason] : []));
  if (errors.length > 0) throw errors.find((error) => !isRefused(error)) ?? errors[0];
  // None is rejected, so this returns at once.
  return Promise.all(promises);
}

function isRefused(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === IN_FAILED_TRANSACTION;
}
