import { onAbort } from "./abort.ts";

/**
 * Runs a group of tasks concurrently. All tasks receive one signal. When a task ends or throws, or the outer signal
 * aborts, that signal aborts and thereby stops the other tasks.
 *
 * @throws the first error, after all tasks have ended
 */
export async function runTaskGroup(
  signal: AbortSignal,
  tasks: readonly ((signal: AbortSignal) => Promise<void>)[],
): Promise<void> {
  const group = new AbortController();
  const end = () => group.abort();
  const remove = onAbort(signal, end);
  const failures: unknown[] = [];
  const run = async (task: (signal: AbortSignal) => Promise<void>) => {
    try {
      await task(group.signal);
    } catch (error) {
      failures.push(error);
    } finally {
      end();
    }
  };
  try {
    await Promise.all(tasks.map(run));
  } finally {
    remove();
  }
  if (failures.length > 0) throw failures[0];
}
