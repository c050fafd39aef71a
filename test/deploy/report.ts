/** Prints one line for each promise: `ok <promise>`, `FAIL <promise>: <reason>` or `not run: <promise>: <reason>`. */

const counts = { ok: 0, failed: 0, "not run": 0 };

const print = (text: string) => process.stdout.write(`${text}\n`);

/**
 * Runs a check of a promise. The check throws if the promise is broken, and can return a measured value as text. Returns
 * false if the check throws.
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

/** Reports a promise that could not be checked. */
export function skip(promise: string, reason: string): void {
  print(`not run: ${promise}: ${reason}`);
  counts["not run"] += 1;
}

/** Prints the totals. Returns the exit code: 1 if a promise is broken. */
export function summarize(): number {
  print(
    Object.entries(counts)
      .map(([result, count]) => `${count} ${result}`)
      .join(", "),
  );
  return counts.failed > 0 ? 1 : 0;
}
