import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { expect } from "chai";

const SERVICE_SCRIPT = `
import { runService, StartError } from "./shared/runtime/run-service.ts";
await runService("demo", async () => {
  throw new StartError("cannot listen", { cause: new Error("the port\\nis taken", { cause: "by another" }) });
});`;

const ARGS = ["--import", "tsx", "--input-type=module", "--eval"];

function run(script: string) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [...ARGS, script], { encoding: "utf8" });
  return { status, stdout, stderr };
}

describe("a service that cannot start", () => {
  it("a service that cannot start prints one line with the causes and exits with 1", () => {
    expect(run(SERVICE_SCRIPT)).to.deep.equal({
      status: 1,
      stdout: "",
      stderr: "demo: cannot listen (Error: the port is taken (by another))\n",
    });
  });
});

const DRAINING_SCRIPT = `
import { runService } from "./shared/runtime/run-service.ts";
import { pause } from "./shared/runtime/backoff.ts";
await runService("demo", async () => {
  const timer = setInterval(() => undefined, 1000);
  console.log("started");
  return {
    url: "",
    drain: (signal) => (console.log("drains"), pause(600_000, signal)),
    stop: async () => (console.log("stops"), clearInterval(timer)),
  };
});`;

const STARTING_SCRIPT = `
import { runService } from "./shared/runtime/run-service.ts";
await runService("demo", () => {
  setInterval(() => undefined, 1000);
  console.log("starting");
  return new Promise(() => undefined);
});`;

const FAILING_SCRIPT = `
import { runService, StartError } from "./shared/runtime/run-service.ts";
await runService("demo", async () => ({
  url: "",
  drain: async () => console.log("drains"),
  stop: async () => console.log("stops"),
  failure: Promise.resolve(new StartError("the read models were dropped")),
}));`;

const BROKEN_SCRIPT = `
import { runService } from "./shared/runtime/run-service.ts";
await runService("demo", async () => {
  setTimeout(() => { throw new TypeError("unexpected", { cause: new Error("another") }); });
  return { url: "", stop: async () => undefined };
});`;

/** Time after which a process that does not end is killed. Milliseconds. */
const EXIT_TIMEOUT_MS = 30_000;

describe("a service that is stopped", () => {
  it("SIGTERM ends a service that is still starting", async () => {
    const options = { timeout: EXIT_TIMEOUT_MS, killSignal: "SIGKILL" } as const;
    const child = spawn(process.execPath, [...ARGS, STARTING_SCRIPT], {
      ...options,
      stdio: ["ignore", "pipe", "inherit"],
    });
    child.stdout.once("data", () => child.kill("SIGTERM"));
    expect(await once(child, "exit")).to.deep.equal([0, null]);
  });

  it("a service that can no longer work stops without a drain, and exits with 1 and the reason", () => {
    expect(run(FAILING_SCRIPT)).to.deep.equal({
      status: 1,
      stdout: "stops\n",
      stderr: "demo: the read models were dropped\n",
    });
  });

  it("an uncaught error ends a service with exit code 1, a message in one line and the stack trace", () => {
    const { status, stderr } = run(BROKEN_SCRIPT);
    expect(status).to.equal(1);
    expect(stderr).to.match(/^demo: TypeError: unexpected \(Error: another\)\n( {4}at .+\n)+$/);
  });

  it("SIGTERM drains the service before it stops, and SIGINT ends the drain", async () => {
    const child = spawn(process.execPath, [...ARGS, DRAINING_SCRIPT], { stdio: ["ignore", "pipe", "inherit"] });
    const exitPromise = once(child, "exit");
    const lines: string[] = [];
    for await (const line of createInterface(child.stdout)) {
      lines.push(line);
      if (line === "started") child.kill("SIGTERM");
      if (line === "drains") child.kill("SIGINT");
    }
    expect(lines).to.deep.equal(["started", "drains", "stops"]);
    expect(await exitPromise).to.deep.equal([0, null]);
  });
});
