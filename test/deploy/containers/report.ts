/** Prints one line for each promise: `ok  <promise>`, `FAIL <promise>: <reason>` or `not run: <promise>: <reason>`. */
export interface Report {
  /** Runs a check of a promise. The check throws if the promise is broken, and can return a measured value as text. */
  check(promise: string, run: () => Promise<unknown>): Promise<void>;
  skip(promise: string, reason: string): void;
  /** Prints `N passed, N failed, N skipped`. @returns the exit code */
  finish(): number;
}

export function createReport(): Report {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  return {
    async check(promise, run) {
      try {
        const value = await run();
        counts.passed++;
        console.log(`ok   ${promise}${typeof value === "string" ? ` (${value})` : ""}`);
      } catch (error) {
        counts.failed++;
        console.log(`FAIL ${promise}: ${error instanceof Error ? error.message : String(error)}`);
      }
    },
    skip(promise, reason) {
      counts.skipped++;
      console.log(`not run: ${promise}: ${reason}`);
    },
    finish() {
      console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
      return counts.failed === 0 ? 0 : 1;
    },
  };
}
