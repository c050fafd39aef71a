import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import path from "node:path";
import readline from "node:readline";
import { expect } from "chai";
import { appendBytes } from "../../../../command/cli/log-copy/raw-streams.ts";
import { buildNodeCommand } from "../../../../deploy/local/setup/project.ts";
import { LogProcess } from "../../../deploy/eventstore/log-process.ts";
import { createRawClient } from "../../../deploy/eventstore/raw-client.ts";
import { eventually } from "../../../support/eventually.ts";
import { makeTestRoot } from "../../../support/stack.ts";
import { listEvents } from "./copied-logs.ts";

/** Number of streams with one event each. The copy appends each event separately, which takes long enough to stop it. */
const STREAM_COUNT = 600;

/** A run of `log copy` in a separate process. */
interface CopyProcess {
  child: ChildProcess;
  out: string[];
  err: string[];
  /** Exit code. */
  exitPromise: Promise<number | null>;
}

describe("an interrupted copy of an event log", function () {
  this.timeout(300_000);
  let source: LogProcess;
  let target: LogProcess;
  const getTargetDir = () => path.join(root, "target");
  let root: string;
  const processes: CopyProcess[] = [];

  before(async () => {
    root = makeTestRoot();
    source = await LogProcess.start(path.join(root, "source"));
    const client = source.createClient();
    const createEvent = () => ({ id: randomUUID(), type: "Noted", contentType: "application/json" });
    const eventBytes = { data: Buffer.from('{"a": 1.0}'), metadata: Buffer.from("{}") };
    for (let start = 0; start < STREAM_COUNT; start += 50) {
      const streams = Array.from({ length: 50 }, (_, index) => `note-${start + index}`);
      await Promise.all(
        streams.map((stream) => appendBytes(client, stream, -1n, [{ ...createEvent(), ...eventBytes }])),
      );
    }
    await client.dispose();
  });

  beforeEach(async () => {
    root = makeTestRoot();
    target = await LogProcess.start(getTargetDir());
  });

  afterEach(async () => {
    for (const { child } of processes.splice(0)) child.kill("SIGKILL");
    await target.kill("SIGKILL");
  });

  after(() => source.kill("SIGKILL"));

  function startCopy(...options: string[]): CopyProcess {
    const { command, args } = buildNodeCommand("command/cli/main.ts", ["log", "copy", ...options]);
    const toUrl = (log: LogProcess) => `esdb://127.0.0.1:${log.port}?tls=false`;
    const urls = { EVENTSTORE_URL: toUrl(source), COPY_TARGET_URL: toUrl(target) };
    const child = spawn(command, args, { env: { ...process.env, ...urls } });
    const [out, err]: [string[], string[]] = [[], []];
    readline.createInterface({ input: child.stdout }).on("line", (line) => out.push(line));
    readline.createInterface({ input: child.stderr }).on("line", (line) => err.push(line));
    const exitPromise = once(child, "close").then(([code]) => code as number | null);
    const copyProcess = { child, out, err, exitPromise };
    processes.push(copyProcess);
    return copyProcess;
  }

  const awaitProgress = ({ err }: CopyProcess) =>
    eventually("the copy is in progress", () => err.some((line) => line.includes("events copied")));
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
    expect(events).to.deep.equal((await listLogEvents(source)).slice(0, events.length));
    return events.length;
  }

  async function expectCompletedBySecondCopy(): Promise<void> {
    const copiedCount = await expectTargetIsPrefix();
    expect(copiedCount).to.be.within(1, STREAM_COUNT - 1);
    const { exitPromise, out, err } = startCopy("--json");
    expect(await exitPromise, err.join("\n")).to.equal(0);
    expect(JSON.parse(out.join())).to.include({
      ...{ end: "complete", copied: STREAM_COUNT - copiedCount, equal: true },
    });
    expect(await expectTargetIsPrefix()).to.equal(STREAM_COUNT);
  }

  it("a killed copy leaves the first events of the source, and a second copy completes the target", async () => {
    const copy = startCopy();
    await awaitProgress(copy);
    copy.child.kill("SIGKILL");
    await copy.exitPromise;
    await expectCompletedBySecondCopy();
  });

  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    it(`a copy stops on ${signal} and says how to continue, and a second copy completes the target`, async () => {
      const copy = startCopy();
      await awaitProgress(copy);
      copy.child.kill(signal);
      expect(await copy.exitPromise).to.equal(130);
      expect(copy.out).to.deep.equal([]);
      expect(copy.err.at(-1)).to.match(
        /^log copy: interrupted after \d+ copied events; run the same command again to continue$/,
      );
      await expectCompletedBySecondCopy();
    });
  }

  it("a copy continues when a killed target is restarted", async () => {
    const copy = startCopy();
    await awaitProgress(copy);
    await target.kill("SIGKILL");
    await awaitNote(copy);
    target = await LogProcess.start(getTargetDir(), target.port);
    expect(await copy.exitPromise, copy.err.join("\n")).to.equal(0);
    expect(copy.err).to.include("log copy: the target log is available again");
    expect(await expectTargetIsPrefix()).to.equal(STREAM_COUNT);
  });

  it("a copy exits with 4 if the target stays halted for too long, and a second copy completes it", async () => {
    const copy = startCopy("--log-wait", "1");
    await awaitProgress(copy);
    process.kill(target.pid, "SIGSTOP");
    expect(await copy.exitPromise).to.equal(4);
    process.kill(target.pid, "SIGCONT");
    expect(copy.err.at(-1)).to.equal(
      `clinic: the target log at esdb://127.0.0.1:${target.port} does not respond; check COPY_TARGET_URL and run the command again`,
    );
    await expectCompletedBySecondCopy();
  });

  it("a copy that waits for its target stops on SIGINT", async () => {
    const copy = startCopy();
    await awaitProgress(copy);
    await target.kill("SIGKILL");
    await awaitNote(copy);
    copy.child.kill("SIGINT");
    expect(await copy.exitPromise).to.equal(130);
    target = await LogProcess.start(getTargetDir(), target.port);
    await expectCompletedBySecondCopy();
  });
});
