/**
 * A mocha process of `npm test`. It runs the test files that its parent sends, one after the other, and shares its
 * servers between them. It ends when the parent disconnects.
 */
import { readFileSync } from "node:fs";
import { format } from "node:util";
import Mocha from "mocha";
import { mochaGlobalSetup, mochaGlobalTeardown, mochaHooks } from "./stack.ts";

export interface FileResult {
  output: string;
  /** Part of the output about failed tests. */
  failureOutput: string;
  passed: number;
  failed: number;
  skipped: number;
}

const { timeout } = JSON.parse(readFileSync(new URL("../../.mocharc.json", import.meta.url), "utf8"));

mochaGlobalSetup();
process.on("message", async (file: string) => {
  process.send?.(await runFile(file));
});
process.once("disconnect", () => void mochaGlobalTeardown());

async function runFile(file: string): Promise<FileResult> {
  const lines: string[] = [];
  Mocha.reporters.Base.consoleLog = (...values: unknown[]) => void lines.push(`${format(...values)}\n`);
  const mocha = new Mocha({
    timeout,
    forbidOnly: process.env.CI !== undefined,
    reporter: "spec",
    rootHooks: mochaHooks,
  });
  mocha.addFile(file);
  await mocha.loadFilesAsync();
  const { stats } = await new Promise<Mocha.Runner>((resolve) => {
    const runner = mocha.run(() => resolve(runner));
  });
  mocha.dispose();
  const { passes: passed = 0, failures: failed = 0, pending: skipped = 0 } = stats ?? {};
  const failureLines = failed > 0 ? lines.slice(lines.findIndex((line) => /\d+ failing/.test(line))) : [];
  return { output: lines.join(""), failureOutput: failureLines.join(""), passed, failed, skipped };
}
