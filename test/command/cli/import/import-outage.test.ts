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

/** Long enough that an import is still under way when a test acts on it. */
const CUSTOMERS = 300;

/** On a log of its own, which is stopped and killed. */
describe("an import, when the event log does not answer", function () {
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
    await log.end("SIGKILL");
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
    for (let index = 0; index < CUSTOMERS; index += 1)
      lines.push({
        ...{ command: "customer register", id: randomUUID(), clinic: id, fullName: `Customer ${index}` },
      });
    // Weighing twice would be two events: a line that is applied twice shows.
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

  /** Starts the import as a process of its own, as an operator does. */
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

  const under = (way: Running) =>
    eventually("the import is under way", () => way.err.some((line) => line.includes(" of ")), 60_000);
  const waits = (way: Running) =>
    eventually("the import waits", () => way.err.some((line) => line.includes("does not answer")), 30_000);

  /** Every line has had its effect once. */
  async function expectEachOnce(lines: Record<string, unknown>[]): Promise<void> {
    const client = log.client();
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

  it("continues when a halted log continues, and applies each line once", async () => {
    const { name, lines } = file();
    const way = start(name);
    await under(way);
    process.kill(log.pid, "SIGSTOP");
    try {
      await waits(way);
    } finally {
      process.kill(log.pid, "SIGCONT");
    }
    expect(await way.code(), way.err.join("\n")).to.equal(0);
    expect(way.err).to.include("import: the event log does not answer; retrying for up to 300 s");
    expect(way.err).to.include("import: the event log is available again");
    const totals = JSON.parse(way.out.at(-1) ?? "");
    expect(totals).to.include({ end: "complete", lines: lines.length, failed: 0, left: 0 });
    await expectEachOnce(lines);
  });

  it("continues when a killed log is restarted, and applies each line once", async () => {
    const { name, lines } = file();
    const way = start(name);
    await under(way);
    const { port } = log;
    await log.end("SIGKILL");
    await waits(way);
    log = await LogProcess.start(dir, port);
    expect(await way.code(), way.err.join("\n")).to.equal(0);
    const totals = JSON.parse(way.out.at(-1) ?? "");
    expect(totals).to.include({ end: "complete", lines: lines.length, failed: 0, left: 0 });
    await expectEachOnce(lines);
  });

  it("exits with 4 after the wait, prints the totals, and is finished by another run", async () => {
    const { name, lines } = file();
    const way = start(name, "--log-wait", "1");
    await under(way);
    process.kill(log.pid, "SIGSTOP");
    try {
      expect(await way.code()).to.equal(4);
    } finally {
      process.kill(log.pid, "SIGCONT");
    }
    expect(way.err.at(-1)).to.equal(
      "clinic: the event log is unavailable; check EVENTSTORE_URL and try again",
    );
    const totals = JSON.parse(way.out.at(-1) ?? "");
    expect(totals).to.include({ end: "failed", lines: lines.length, failed: 0 });
    expect(totals.applied).to.be.greaterThan(0);
    expect(totals.left).to.equal(lines.length - totals.applied);
    await finishedByAnotherRun(name, lines);
  });

  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    it(`stops in order on ${signal}, also while it waits, and is finished by another run`, async () => {
      const { name, lines } = file();
      const way = start(name);
      await under(way);
      process.kill(log.pid, "SIGSTOP");
      try {
        await waits(way);
        way.child.kill(signal);
        expect(await way.code(), way.err.join("\n")).to.equal(130);
      } finally {
        process.kill(log.pid, "SIGCONT");
      }
      expect(way.err).to.include(
        "import: finishing the lines in progress; press Ctrl-C again to stop immediately",
      );
      expect(JSON.parse(way.out.at(-1) ?? "")).to.include({ end: "interrupted", failed: 0 });
      await finishedByAnotherRun(name, lines);
    });
  }

  it("stops in order when interrupted, and prints the totals as text", async () => {
    const { name, lines } = file();
    const interruption = new AbortController();
    const stopping = runClinic(["import", name], { env: env(), signal: interruption.signal });
    const client = log.client();
    const events = createEventLog(client);
    await eventually("the first line", async () => (await events.read(`clinic-${lines[0]?.id}`)).length > 0);
    interruption.abort();
    const { code, out, err } = await stopping;
    await client.dispose();
    expect(code).to.equal(130);
    expect(err.at(-1)).to.match(
      /^import: stopped after \d+ of 352 lines; run the same import again to continue$/,
    );
    expect(out).to.have.length(1);
    expect(out[0]).to.match(
      /^import: 352 lines: \d+ applied, 0 already applied, 0 failed, \d+ left \(\d+\.\d s\)$/,
    );
  });

  async function finishedByAnotherRun(name: string, lines: Record<string, unknown>[]): Promise<void> {
    const again = await runClinic(["import", name, "--json"], { env: env() });
    expect(again.code, again.err.join("\n")).to.equal(0);
    expect(JSON.parse(again.out.at(-1) ?? "")).to.include({ end: "complete", failed: 0, left: 0 });
    await expectEachOnce(lines);
  }
});
