/** `npm test`: types, lint, then mocha with the arguments given. The last line says `N passed, N failed`. */
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { withDeathSignal } from "../deploy/local/death-signal.ts";
import { findNatsServer } from "../deploy/local/nats-server.ts";
import { PROJECT } from "../deploy/local/project.ts";
import { runEntry } from "../deploy/local/setup-error.ts";
import { findChromium } from "./support/chromium.ts";

const bin = (name: string) => path.join(PROJECT, "node_modules", ".bin", name);

await runEntry(async () => {
  // Installed now if need be, since that would take longer than a test may.
  if (!process.env.NATS_URL) await findNatsServer((line) => console.log(line));
  await findChromium((line) => console.log(line));
  const summary = path.join(os.tmpdir(), `test-summary-${process.pid}`);
  const given = process.argv.slice(2);
  const files = given.some((arg) => arg.includes("test/")) ? [] : ["test/**/*.test.ts"];
  const mocha = [...(process.env.CI ? ["--forbid-only"] : []), ...given, ...files];
  const codes = [
    await step("types", bin("tsc"), ["--noEmit"]),
    await step("lint", bin("biome"), ["check", "."]),
    await step("tests", bin("mocha"), mocha, { TEST_SUMMARY: summary }),
  ];
  const line = fs.existsSync(summary) ? fs.readFileSync(summary, "utf8") : "0 passed, 1 failed";
  fs.rmSync(summary, { force: true });
  console.log(line);
  process.exitCode = codes.find((code) => code !== 0) ?? 0;
});

/** Runs one step to its end, its output on the terminal; a signal ends the step and all that would follow. */
async function step(
  name: string,
  command: string,
  args: string[],
  env: NodeJS.ProcessEnv = {},
): Promise<number> {
  const startedAt = Date.now();
  console.log(`== ${name}`);
  const bound = withDeathSignal("SIGTERM", command, args);
  const child = spawn(...bound, { cwd: PROJECT, stdio: "inherit", env: { ...process.env, ...env } });
  const pass = (signal: NodeJS.Signals) => {
    child.kill(signal);
    child.once("exit", () => process.exit(130));
  };
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const signal of signals) process.on(signal, pass);
  const code = await new Promise<number>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (status) => resolve(status ?? 1));
  });
  for (const signal of signals) process.off(signal, pass);
  console.log(
    `== ${name}: ${code === 0 ? "passed" : "FAILED"} (${((Date.now() - startedAt) / 1000).toFixed(1)} s)`,
  );
  return code;
}
