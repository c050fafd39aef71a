import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { expect } from "chai";
import { buildNodeCommand } from "../../../../deploy/local/setup/project.ts";
import { connectEventStore } from "../../../../shared/eventstore/connect.ts";
import { LogProcess } from "../../../deploy/eventstore/log-process.ts";
import { getDataKeySettings } from "../../../support/data-keys.ts";
import { eventually } from "../../../support/eventually.ts";
import { type ProxiedCall, startGrpcProxy } from "../../../support/grpc-proxy.ts";
import { createPlainLog } from "../../../support/plain-log.ts";
import { getTestServers, makeTestRoot } from "../../../support/stack.ts";
import { runClinic } from "../terminal.ts";

/** Number of customers in the file. The import registers them concurrently. */
const CUSTOMER_COUNT = 100;

/**
 * Number of lines about other objects: the clinic, an animal and its weighings. The import applies the weighings one
 * after the other. This takes long enough that a test can halt or kill the event log during the import.
 */
const OTHER_LINE_COUNT = 102;

type Line = Record<string, unknown>;

const clinicFields = { slug: "outage", name: "Outage", timezone: "Europe/Oslo", currency: "NOK", locale: "nb-NO" };

const isAppend = ({ path }: ProxiedCall) => !path.endsWith("/Read");

/** Creates the file of an import. */
function createFile(): { name: string; lines: Line[] } {
  const clinic = randomUUID();
  const customers = Array.from({ length: CUSTOMER_COUNT }, (_, index) => ({
    command: "customer register",
    id: randomUUID(),
    clinic,
    fullName: `Customer ${index}`,
  }));
  const [animal, customer] = [randomUUID(), customers[0]?.id];
  // Each weighing records an event, so a line that is applied twice is detected.
  const weighings = Array.from({ length: OTHER_LINE_COUNT - 2 }, (_, index) => ({
    command: "animal weigh",
    id: animal,
    clinic,
    weightKg: 1 + index / 100,
  }));
  const lines = [
    { command: "clinic register", id: clinic, ...clinicFields },
    ...customers,
    { command: "animal register", id: animal, clinic, customer, name: "Rex", species: "dog" },
    ...weighings,
  ];
  const name = path.join(makeTestRoot(), "lines.ndjson");
  fs.writeFileSync(name, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  return { name, lines };
}

/** An import, with its own event log that the test halts or kills. */
class Outage {
  readonly #dir = path.join(makeTestRoot(), "log");
  readonly #children: ChildProcess[] = [];
  readonly file = createFile();
  readonly out: string[] = [];
  readonly err: string[] = [];
  log: LogProcess | undefined;
  #keySettings: Record<string, string> = {};

  /** Starts the event log, on the former port if it ran before. */
  async startLog(): Promise<LogProcess> {
    this.#keySettings = await getDataKeySettings();
    this.log = await LogProcess.start(this.#dir, this.log?.port);
    return this.log;
  }

  get env() {
    return { EVENTSTORE_URL: `esdb://127.0.0.1:${this.log?.port}?tls=false`, ...this.#keySettings };
  }

  /** Starts the import in a separate process, as an operator does. */
  #spawnImport(out: string[], err: string[], options: string[] = []) {
    const { command, args } = buildNodeCommand("command/cli/main.ts", ["import", this.file.name, "--json", ...options]);
    const child = spawn(command, args, { env: { ...process.env, ...this.env } });
    this.#children.push(child);
    readline.createInterface({ input: child.stdout }).on("line", (line) => out.push(line));
    const errorLines = readline.createInterface({ input: child.stderr }).on("line", (line) => err.push(line));
    const progressPromise = new Promise<void>((resolve) => {
      errorLines.on("line", (line) => line.includes(" of ") && resolve());
    });
    return { child, progressPromise, exit: once(child, "close") };
  }

  /** Starts the event log and the import, and waits for progress. */
  async startImport(...options: string[]): Promise<{ log: LogProcess; child: ChildProcess; exit: Promise<unknown[]> }> {
    const log = await this.startLog();
    const { child, progressPromise, exit } = this.#spawnImport(this.out, this.err, options);
    await progressPromise;
    return { log, child, exit };
  }

  /** Waits until the import notices that the event log has become unavailable. */
  waitForNote(): Promise<unknown> {
    const lineCountBefore = this.err.length;
    const isNote = (line: string) => line.includes("does not answer");
    return eventually("the import waits", () => this.err.slice(lineCountBefore).some(isNote));
  }

  get totals() {
    return JSON.parse(this.out.at(-1) ?? "");
  }

  /** Expects that every line was applied exactly once. */
  async expectEachLineOnce(): Promise<void> {
    const client = this.log?.createClient();
    const counts = new Map<string, number>();
    for await (const { event } of client?.readAll() ?? [])
      if (event) counts.set(event.streamId, (counts.get(event.streamId) ?? 0) + 1);
    await client?.dispose();
    const expectedCounts = new Map<string, number>();
    for (const { command, id } of this.file.lines) {
      const stream = `${String(command).split(" ")[0]}-${id}`;
      expectedCounts.set(stream, (expectedCounts.get(stream) ?? 0) + 1);
    }
    const wrongCounts = [...expectedCounts].filter(([stream, count]) => counts.get(stream) !== count);
    expect(wrongCounts).to.deep.equal([]);
  }

  async expectFinishedBySecondRun(): Promise<void> {
    const [out, err]: [string[], string[]] = [[], []];
    // In one process, a client that closes would fail the appends of the imports of other tests.
    const [code] = await this.#spawnImport(out, err).exit;
    expect(code, err.join("\n")).to.equal(0);
    expect(JSON.parse(out.at(-1) ?? "")).to.include({ end: "complete", failed: 0, left: 0 });
    await this.expectEachLineOnce();
  }

  /** Kills all processes. */
  async end(): Promise<void> {
    for (const child of this.#children) child.kill("SIGKILL");
    await this.log?.kill("SIGKILL");
  }
}

/** Number of tests that run at the same time. The tests mostly wait for time limits of the import. */
const CONCURRENT_TESTS = 2;

/** Each test halts or kills its own event log. */
describe("an import while the event log is unavailable", function () {
  this.timeout(300_000);

  const queues = Array.from({ length: CONCURRENT_TESTS }, () => Promise.resolve());
  let testCount = 0;

  /** Defines a test that may start before the previous test has ended. */
  function itConcurrently(title: string, test: (outage: Outage) => Promise<void>): void {
    let testRun: Promise<void> | undefined;
    const queueIndex = testCount % CONCURRENT_TESTS;
    testCount += 1;
    before(() => {
      const outage = new Outage();
      testRun = (queues[queueIndex] as Promise<void>).then(() => test(outage)).finally(() => outage.end());
      // The test reports the error. Until then, the error must not count as unhandled or stop the queue.
      queues[queueIndex] = testRun.catch(() => undefined);
    });
    it(title, () => testRun);
  }

  itConcurrently("an import continues when a halted event log resumes, and applies each line once", async (outage) => {
    const { log, exit } = await outage.startImport();
    process.kill(log.pid, "SIGSTOP");
    await outage.waitForNote();
    process.kill(log.pid, "SIGCONT");
    expect((await exit)[0], outage.err.join("\n")).to.equal(0);
    expect(outage.err).to.include("import: the event log does not answer; retrying for up to 300 s");
    expect(outage.err).to.include("import: the event log is available again");
    expect(outage.totals).to.include({ end: "complete", lines: outage.file.lines.length, failed: 0, left: 0 });
    await outage.expectEachLineOnce();
  });

  itConcurrently(
    "an import continues when a killed event log is restarted, and applies each line once",
    async (outage) => {
      const { log, exit } = await outage.startImport();
      await log.kill("SIGKILL");
      await outage.waitForNote();
      await outage.startLog();
      expect((await exit)[0], outage.err.join("\n")).to.equal(0);
      expect(outage.totals).to.include({ end: "complete", lines: outage.file.lines.length, failed: 0, left: 0 });
      await outage.expectEachLineOnce();
    },
  );

  const timeoutTitle =
    "an import exits with 4 if the event log stays halted for too long, and a second run finishes the import";
  itConcurrently(timeoutTitle, async (outage) => {
    const { log, exit } = await outage.startImport("--log-wait", "1");
    process.kill(log.pid, "SIGSTOP");
    expect((await exit)[0]).to.equal(4);
    process.kill(log.pid, "SIGCONT");
    expect(outage.err.at(-1)).to.equal("clinic: the event log is unavailable; check EVENTSTORE_URL and try again");
    const { totals } = outage;
    expect(totals).to.include({ end: "failed", lines: outage.file.lines.length, failed: 0 });
    expect(totals.applied).to.be.greaterThan(0);
    expect(totals.left).to.equal(outage.file.lines.length - totals.applied);
    await outage.expectFinishedBySecondRun();
  });

  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    const title = `an import that waits for the event log stops on ${signal}, and a second run finishes the import`;
    itConcurrently(title, async (outage) => {
      const { log, child, exit } = await outage.startImport();
      process.kill(log.pid, "SIGSTOP");
      await outage.waitForNote();
      child.kill(signal);
      expect((await exit)[0], outage.err.join("\n")).to.equal(130);
      process.kill(log.pid, "SIGCONT");
      const note = "import: finishing the lines in progress; press Ctrl-C again to stop immediately";
      expect(outage.err).to.include(note);
      expect(outage.totals).to.include({ end: "interrupted", failed: 0 });
      await outage.expectFinishedBySecondRun();
    });
  }

  itConcurrently(
    "an interrupted import finishes the lines in progress and prints the totals as text",
    async (outage) => {
      const client = (await outage.startLog()).createClient();
      const controller = new AbortController();
      const { name, lines } = outage.file;
      const runPromise = runClinic(["import", name], { env: outage.env, signal: controller.signal });
      const eventLog = createPlainLog(client);
      await eventually("the first line", async () => (await eventLog.read(`clinic-${lines[0]?.id}`)).length > 0);
      controller.abort();
      const { code, outputLines: out, errorLines: err } = await runPromise;
      await client.dispose();
      expect(code).to.equal(130);
      expect(err.at(-1)).to.match(/^import: stopped after \d+ of 202 lines; run the same import again to continue$/);
      expect(out).to.have.length(1);
      expect(out[0]).to.match(/^import: 202 lines: \d+ applied, 0 already applied, 0 failed, \d+ left \(\d+\.\d s\)$/);
    },
  );
});

describe("an import while the event log fails for one stream", function () {
  this.timeout(60_000);

  it("a line whose append always fails is reported, and the other lines of the file are applied", async () => {
    const proxy = await startGrpcProxy((await getTestServers()).eventstoreUrl);
    const ids = [randomUUID(), randomUUID(), randomUUID()];
    const [brokenId = "", ...otherIds] = ids;
    // The server fails on this stream, and ends the call with the status UNKNOWN.
    proxy.onStep = (step, call, request) =>
      step === "sent" && request.includes(brokenId) && isAppend(call) && call.refuse(2);
    const lines = ids.map((id) => JSON.stringify({ command: "clinic register", id, ...clinicFields }));
    const run = () =>
      runClinic(["import", "-", "--json", "--log-wait", "1"], {
        env: { EVENTSTORE_URL: proxy.url },
        stdin: [...lines, ...lines.slice(0, 1)].join("\n"),
      });
    const { code, outputLines, errorLines } = await run();
    const [totals, ...failures] = outputLines.map((line) => JSON.parse(line)).reverse();
    expect(totals).to.include({ end: "complete", applied: 2, failed: 2, left: 0 });
    const reason = "StuckOperationError: the event log fails only for this object";
    expect(failures.reverse()).to.deep.equal([
      { line: 1, code: "unexpected_error", problems: [{ field: "$", reason }] },
      {
        line: 4,
        code: "follows_failure",
        problems: [{ field: "$.id", reason: "line 1 about the same object failed" }],
      },
    ]);
    expect(code).to.equal(3);
    expect(errorLines.join("\n"), "no outage is reported").not.to.contain("answer");
    const client = connectEventStore((await getTestServers()).eventstoreUrl, "test");
    for (const id of otherIds) expect(await createPlainLog(client).read(`clinic-${id}`)).to.have.length(1);
    await client.dispose();
    await proxy.close();
  });
});
