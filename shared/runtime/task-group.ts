import { onAbort } from "./abort.ts";

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
