/** Prints one line for each promise of the guide. */
const results: { label: string; result: "ok" | "FAIL" | "not run" }[] = [];

const print = (text: string) => process.stdout.write(`${text}\n`);

/** Checks a promise. Returns false if the check throws. The text that it returns is printed too. */
export async function check(label: string, promise: () => Promise<string | undefined>): Promise<boolean> {
  try {
    const detail = await promise();
    print(`ok ${label}${detail === undefined ? "" : `: ${detail}`}`);
    results.push({ label, result: "ok" });
    return true;
  } catch (error) {
    print(`FAIL ${label}: ${error instanceof Error ? error.message : String(error)}`);
    results.push({ label, result: "FAIL" });
    return false;
  }
}

/** Reports a promise that could not be checked. */
export function skip(label: string, reason: string): void {
  print(`not run: ${label}: ${reason}`);
  results.push({ label, result: "not run" });
}

/** Prints the totals. Returns the exit code: 1 if a promise failed. */
export function summarize(): number {
  const count = (result: string) => results.filter((entry) => entry.result === result).length;
  print(`${count("ok")} ok, ${count("FAIL")} failed, ${count("not run")} not run`);
  return count("FAIL") > 0 ? 1 : 0;
}
