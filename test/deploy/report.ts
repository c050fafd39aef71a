const counts = { ok: 0, failed: 0, "not run": 0 };

const print = (text: string) => process.stdout.write(`${text}\n`);

/**
 * Runs a check and prints `ok <promise>` or `FAIL <promise>: <reason>`.
 *
 * @param run throws if the promise is broken; can return a measured value as text
 * @returns false if `run` throws
 */
export async function check(promise: string, run: () => Promise<unknown>): Promise<boolean> {
  try {
    const value = await run();
    print(`ok ${promise}${typeof value === "string" ? ` (${value})` : ""}`);
    counts.ok += 1;
    return true;
  } catch (error) {
    print(`FAIL ${promise}: ${error instanceof Error ? error.message : String(error)}`);
    counts.failed += 1;
    return false;
  }
}

/** Prints `not run: <promise>: <reason>` for a promise that cannot be checked. */
export function skip(promise: string, reason: string): void {
  print(`not run: ${promise}: ${reason}`);
  counts["not run"] += 1;
}

/** Prints the totals. @returns exit code: 1 if a check failed */
export function summarize(): number {
  print(
    Object.entries(counts)
      .map(([result, count]) => `${count} ${result}`)
      .join(", "),
  );
  return counts.failed > 0 ? 1 : 0;
}
