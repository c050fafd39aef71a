import fs from "node:fs";
import Mocha from "mocha";

/**
 * Mocha's spec reporter with a last line `N passed, N failed, N skipped`. If TEST_SUMMARY names a file, writes the line
 * to that file instead of standard output.
 */
export default class SummaryReporter extends Mocha.reporters.Spec {
  constructor(runner, options) {
    super(runner, options);
    runner.once("end", () => {
      const { passes, failures, pending } = runner.stats;
      const line = `${passes} passed, ${failures} failed, ${pending} skipped`;
      const file = process.env.TEST_SUMMARY;
      if (file) fs.writeFileSync(file, line);
      else process.stdout.write(`${line}\n`);
    });
  }
}
