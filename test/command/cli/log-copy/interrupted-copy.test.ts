import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import path from "node:path";
import readline from "node:readline";
import { expect } from "chai";
import { buildNodeCommand } from "../../../../deploy/local/setup/project.ts";
import { appendEvents } from "../../../../shared/eventstore/append.ts";
import { LogProcess } from "../../../deploy/eventstore/log-process.ts";
import { createRawClient } from "../../../deploy/eventstore/raw-client.ts";
import { eventually } from "../../../support/eventually.ts";
import { makeTestRoot } from "../../../support/stack.ts";
import { runClinic } from "../terminal.ts";
import { type ListedEvent, listEvents } from "./copied-logs.ts";

/** Number of streams with one event each. The copy appends each event separately, which takes long enough to stop it. */
const STREAM_COUNT = 400;

/** A run of `log copy` in a separate process. */
interface CopyProcess {
  child: ChildProcess;
  out: string[];
  err: string[];
  /** Resolves when the process reports progress for the first time. */
  progressPromise: Promise<void>;
  /** Exit code. */
  exitPromise: Promise<number | null>;
}

describe("an interrupted copy of an event log", function () {
  this.timeout(300_000);
  let source: LogProcess;
  let sourceEvents: ListedEvent[];
  let target: LogProcess;
  let targetDir: string;
  const processes: CopyProcess[] = [];

  before(async () => {
    source = await LogProcess.start(path.join(makeTestRoot(), "source"));
    const client = source.createClient();
    const createEvent = () => ({ id: randomUUID(), type: "Noted", contentType: "application/json" });
    const eventBytes = { data: Buffer.from('{"a": 1.0}'), metadata: Buffer.from("{}") };
    for (let start = 0; start < STREAM_COUNT; start += 50) {
      const streams = Array.from({ length: 50 }, (_, index) => `note-${start + index}`);
      await Promise.all(
        streams.map((stream) => appendEvents(client, stream, -1n, [{ ...createEvent(), ...eventBytes }], 15_000)),
      );
    }
    await client.dispose();
    sourceEvents = await listLogEvents(source);
  });

  beforeEach(async () => {
    targetDir = path.join(makeTestRoot(), "target");
    target = await LogProcess.start(targetDir);
  });

  afterEach(async () => {
    for (const { child } of processes.splice(0)) child.kill("SIGKILL");
    await target.kill("SIGKILL");
  });

  after(() => source.kill("SIGKILL"));

  const getUrls = () => {
    const toUrl = (log: LogProcess) => `esdb://127.0.0.1:${log.port}?tls=false`;
    return { EVENTSTORE_URL: toUrl(source), COPY_TARGET_URL: toUrl(target) };
  };

  function startCopy(...options: string[]): CopyProcess {
    const { command, args } = buildNodeCommand("command/cli/main.ts", ["log", "copy", ...options]);
    const child = spawn(command, args, { env: { ...process.env, ...getUrls() } });
    const [out, err]: [string[], string[]] = [[], []];
    readline.createInterface({ input: child.stdout }).on("line", (line) => out.push(line));
    const errorLines = readline.createInterface({ input: child.stderr }).on("line", (line) => err.push(line));
    const progressPromise = new Promise<void>((resolve) => {
      errorLines.on("line", (line) => line.includes("events copied") && resolve());
    });
    const exitPromise = once(child, "close").then(([code]) => code as number | null);
    const copyProcess = { child, out, err, progressPromise, exitPromise };
    processes.push(copyProcess);
    return copyProcess;
  }

  const awaitNote = ({ err }: CopyProcess) =>
    eventually("the copy waits", () => err.some((line) => line.includes("the target log does not respond")));

  const listLogEvents = async (log: LogProcess) => {
    const client = createRawClient(log.port);
    const events = await listEvents(client);
    client.close();
    return events;
  };

  /** Expects that the target holds the first events of the source. Returns their number. */
  async function expectTargetIsPrefix(): Promise<number> {
    const events = await listLogEvents(target);
    expect(events).to.deep.equal(sourceEvents.slice(0, events.length));
    return events.length;
  }

  /** @param lateAppends maximum number of appends that the target may still store after it was counted */
  async function expectCompletedByNextCopy(lateAppends = 0): Promise<void> {
    const copiedCount = await expectTargetIsPrefix();
    expect(copiedCount).to.be.within(1, STREAM_COUNT - 1);
    const { code, outputLines, errorLines } = await runClinic(["log", "copy", "--json"], { env: getUrls() });
    expect(code, errorLines.join("\n")).to.equal(0);
    expectCompletion(outputLines, STREAM_COUNT - copiedCount, lateAppends);
    expect(await expectTargetIsPrefix()).to.equal(STREAM_COUNT);
  }

  function expectCompletion(outputLines: string[], missingCount: number, lateAppends = 0): void {
    const result = JSON.parse(outputLines.join());
    expect(result).to.include({ end: "complete", equal: true });
    expect(result.copied).to.be.within(missingCount - lateAppends, missingCount);
  }

  it("a copy that is killed, or stops on a signal and says how to continue, leaves the first events, and another copy completes the target", async () => {
    const killedCopy = startCopy();
    await killedCopy.progressPromise;
    killedCopy.child.kill("SIGKILL");
    await killedCopy.exitPromise;
    let copiedCount = await expectTargetIsPrefix();
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      const { child, out, err, progressPromise, exitPromise } = startCopy();
      await progressPromise;
      child.kill(signal);
      expect(await exitPromise, signal).to.equal(130);
      expect(out).to.deep.equal([]);
      expect(err.at(-1)).to.match(
        /^log copy: interrupted after \d+ copied events; run the same command again to continue$/,
      );
      const copiedCountBefore = copiedCount;
      copiedCount = await expectTargetIsPrefix();
      expect(copiedCount, signal).to.be.greaterThan(copiedCountBefore);
    }
    await expectCompletedByNextCopy();
  });

  it("a copy exits with 4 if the target stays halted for too long, and a second copy completes it", async () => {
    const copy = startCopy("--log-wait", "1");
    await copy.progressPromise;
    process.kill(target.pid, "SIGSTOP");
    expect(await copy.exitPromise).to.equal(4);
    process.kill(target.pid, "SIGCONT");
    expect(copy.err.at(-1)).to.equal(
      `clinic: the target log at esdb://127.0.0.1:${target.port} does not respond; check COPY_TARGET_URL and run the command again`,
    );
    // The target stores the append that it received while it was halted.
    await expectCompletedByNextCopy(1);
  });

  it("a copy that waits for a killed target stops on SIGINT, and the next copy continues when the target is restarted", async () => {
    const stoppedCopy = startCopy();
    await stoppedCopy.progressPromise;
    await target.kill("SIGKILL");
    await awaitNote(stoppedCopy);
    stoppedCopy.child.kill("SIGINT");
    expect(await stoppedCopy.exitPromise).to.equal(130);
    target = await LogProcess.start(targetDir, target.port);
    const copiedCount = await expectTargetIsPrefix();
    expect(copiedCount).to.be.within(1, STREAM_COUNT - 1);

    const copy = startCopy("--json");
    await copy.progressPromise;
    await target.kill("SIGKILL");
    await awaitNote(copy);
    target = await LogProcess.start(targetDir, target.port);
    expect(await copy.exitPromise, copy.err.join("\n")).to.equal(0);
    expect(copy.err).to.include("log copy: the target log is available again");
    expectCompletion(copy.out, STREAM_COUNT - copiedCount);
    expect(await expectTargetIsPrefix()).to.equal(STREAM_COUNT);
  });
});
