import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { expect } from "chai";
import { buildNodeCommand } from "../../../../deploy/local/setup/project.ts";
import { createEventLog } from "../../../../shared/eventstore/log.ts";
import { LogProcess } from "../../../deploy/eventstore/log-process.ts";
import { eventually } from "../../../support/eventually.ts";
import { makeTestRoot } from "../../../support/stack.ts";
import { runClinic } from "../terminal.ts";

/** Number of customers in the file. It is large enough that a test can halt or kill the event log during the import. */
const CUSTOMER_COUNT = 300;

/** Each test halts or kills its own event log. */
describe("an import while the event log is unavailable", function () {
  this.timeout(300_000);
  let dir: string;
  let log: LogProcess;
  let running: Running | undefined;
  beforeEach(async () => {
    dir = path.join(makeTestRoot(), "log");
    log = await LogProcess.start(dir);
  });
  afterEach(async () => {
    running?.child.kill("SIGKILL");
    await running?.exit;
    running = undefined;
    await log.kill("SIGKILL");
  });

  const env = () => ({ EVENTSTORE_URL: `esdb://127.0.0.1:${log.port}?tls=false` });

  function file(): { name: string; lines: Record<string, unknown>[] } {
    const id = randomUUID();
    const names = {
      slug: "outage",
      name: "Outage",
      timezone: "Europe/Oslo",
      currency: "NOK",
      locale: "nb-NO",
    };
    const lines: Record<string, unknown>[] = [{ command: "clinic register", id, ...names }];
    for (let index = 0; index < CUSTOMER_COUNT; index += 1)
      lines.push({
        ...{ command: "customer register", id: randomUUID(), clinic: id, fullName: `Customer ${index}` },
      });
    // Each weighing records an event, so a line that is applied twice is detected.
    const animal = randomUUID();
    const owner = lines[1]?.id;
    lines.push({
      command: "animal register",
      id: animal,
      clinic: id,
      customer: owner,
      name: "Rex",
      species: "dog",
    });
    for (let index = 0; index < 50; index += 1)
      lines.push({ command: "animal weigh", id: animal, clinic: id, weightKg: 1 + index / 100 });
    const name = path.join(makeTestRoot(), "lines.ndjson");
    fs.writeFileSync(name, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    return { name, lines };
  }

  interface Running {
    child: ChildProcess;
    exit: Promise<unknown>;
    code(): Promise<number | null>;
    out: string[];
    err: string[];
  }

  /** Starts the import in a separate process, as an operator does. */
  function start(name: string, ...options: string[]): Running {
    const { command, args } = buildNodeCommand("command/cli/main.ts", ["import", name, "--json", ...options]);
    const child = spawn(command, args, { env: { ...process.env, ...env() } });
    const [out, err]: [string[], string[]] = [[], []];
    readline.createInterface({ input: child.stdout }).on("line", (line) => out.push(line));
    readline.createInterface({ input: child.stderr }).on("line", (line) => err.push(line));
    const exit = once(child, "close");
    running = { child, exit, code: async () => (await exit)[0] as number | null, out, err };
    return running;
  }

  const waitForProgress = (started: Running) =>
    eventually("the import is under started", () => started.err.some((line) => line.includes(" of ")), 60_000);
  const waitForOutage = (started: Running) =>
    eventually("the import waits", () => started.err.some((line) => line.includes("does not answer")), 30_000);

  /** Expects that every line was applied exactly once. */
  async function expectEachLineOnce(lines: Record<string, unknown>[]): Promise<void> {
    const client = log.createClient();
    const events = createEventLog(client);
    const of = (noun: string) =>
      lines.filter(({ command }) => command === `${noun} register`).map(({ id }) => `${noun}-${id}`);
    const wrong: string[] = [];
    for (const stream of of("customer")) if ((await events.read(stream)).length !== 1) wrong.push(stream);
    expect(wrong).to.deep.equal([]);
    const weighings = lines.filter(({ command }) => command === "animal weigh").length;
    for (const stream of of("animal")) expect(await events.read(stream)).to.have.length(1 + weighings);
    await client.dispose();
  }

  it("an import continues when a halted event log resumes, and applies each line once", async () => {
    const { name, lines } = file();
    const started = start(name);
    await waitForProgress(started);
    process.kill(log.pid, "SIGSTOP");
    try {
      await waitForOutage(started);
    } finally {
      process.kill(log.pid, "SIGCONT");
    }
    expect(await started.code(), started.err.join("\n")).to.equal(0);
    expect(started.err).to.include("import: the event log does not answer; retrying for up to 300 s");
    expect(started.err).to.include("import: the event log is available again");
    const totals = JSON.parse(started.out.at(-1) ?? "");
    expect(totals).to.include({ end: "complete", lines: lines.length, failed: 0, left: 0 });
    await expectEachLineOnce(lines);
  });

  it("an import continues when a killed event log is restarted, and applies each line once", async () => {
    const { name, lines } = file();
    const started = start(name);
    await waitForProgress(started);
    const { port } = log;
    await log.kill("SIGKILL");
    await waitForOutage(started);
    log = await LogProcess.start(dir, port);
    expect(await started.code(), started.err.join("\n")).to.equal(0);
    const totals = JSON.parse(started.out.at(-1) ?? "");
    expect(totals).to.include({ end: "complete", lines: lines.length, failed: 0, left: 0 });
    await expectEachLineOnce(lines);
  });

  it("an import exits with 4 if the event log stays halted for too long, and a second run finishes the import", async () => {
    const { name, lines } = file();
    const started = start(name, "--log-wait", "1");
    await waitForProgress(started);
    process.kill(log.pid, "SIGSTOP");
    try {
      expect(await started.code()).to.equal(4);
    } finally {
      process.kill(log.pid, "SIGCONT");
    }
    expect(started.err.at(-1)).to.equal("clinic: the event log is unavailable; check EVENTSTORE_URL and try again");
    const totals = JSON.parse(started.out.at(-1) ?? "");
    expect(totals).to.include({ end: "failed", lines: lines.length, failed: 0 });
    expect(totals.applied).to.be.greaterThan(0);
    expect(totals.left).to.equal(lines.length - totals.applied);
    await expectFinishedBySecondRun(name, lines);
  });

  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    it(`an import that waits for the event log stops on ${signal}, and a second run finishes the import`, async () => {
      const { name, lines } = file();
      const started = start(name);
      await waitForProgress(started);
      process.kill(log.pid, "SIGSTOP");
      try {
        await waitForOutage(started);
        started.child.kill(signal);
        expect(await started.code(), started.err.join("\n")).to.equal(130);
      } finally {
        process.kill(log.pid, "SIGCONT");
      }
      expect(started.err).to.include("import: finishing the lines in progress; press Ctrl-C again to stop immediately");
      expect(JSON.parse(started.out.at(-1) ?? "")).to.include({ end: "interrupted", failed: 0 });
      await expectFinishedBySecondRun(name, lines);
    });
  }

  it("an interrupted import finishes the lines in progress and prints the totals as text", async () => {
    const { name, lines } = file();
    const interruption = new AbortController();
    const stopping = runClinic(["import", name], { env: env(), signal: interruption.signal });
    const client = log.createClient();
    const events = createEventLog(client);
    await eventually("the first line", async () => (await events.read(`clinic-${lines[0]?.id}`)).length > 0);
    interruption.abort();
    const { code, out, err } = await stopping;
    await client.dispose();
    expect(code).to.equal(130);
    expect(err.at(-1)).to.match(/^import: stopped after \d+ of 352 lines; run the same import again to continue$/);
    expect(out).to.have.length(1);
    expect(out[0]).to.match(/^import: 352 lines: \d+ applied, 0 already applied, 0 failed, \d+ left \(\d+\.\d s\)$/);
  });

  async function expectFinishedBySecondRun(name: string, lines: Record<string, unknown>[]): Promise<void> {
    const again = await runClinic(["import", name, "--json"], { env: env() });
    expect(again.code, again.err.join("\n")).to.equal(0);
    expect(JSON.parse(again.out.at(-1) ?? "")).to.include({ end: "complete", failed: 0, left: 0 });
    await expectEachLineOnce(lines);
  }
});
