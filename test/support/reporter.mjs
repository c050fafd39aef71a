import fs from "node:fs";
import Mocha from "mocha";

/**
 * Mocha's spec reporter, followed by one plain line: `N passed, N failed`, with `, N skipped` if any. Where TEST_SUMMARY
 * names a file, the line goes there instead, for a caller that prints it after its own last word.
 */
export default class SummaryReporter extends Mocha.reporters.Spec {
  constructor(runner, options) {
    super(runner, options);
    runner.once("end", () => {
      const { passes, failures, pending } = runner.stats;
      const line = `${passes} passed, ${failures} failed${pending ? `, ${pending} skipped` : ""}`;
      const file = process.env.TEST_SUMMARY;
      if (file) fs.writeFileSync(file, line);
      else process.stdout.write(`${line}\n`);
    });
  }
}
