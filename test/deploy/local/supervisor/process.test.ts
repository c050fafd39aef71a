import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { readProcessIdentity } from "../../../../deploy/local/setup/pid-lock.mjs";
import { openPidRegistry } from "../../../../deploy/local/setup/pid-registry.ts";
import { getLocalPaths } from "../../../../deploy/local/setup/project.ts";
import type { ComponentContext } from "../../../../deploy/local/supervisor/component.ts";
import { openLogFile } from "../../../../deploy/local/supervisor/log-file.ts";
import { type ProcessSpec, startProcess } from "../../../../deploy/local/supervisor/process.ts";
import { createComponent } from "../../../../deploy/local/supervisor/supervised-process.ts";
import { eventually } from "../../../support/eventually.ts";
import { makeTestRoot } from "../../../support/stack.ts";

function setUp(script: string, options: Partial<ProcessSpec> = {}) {
  const paths = getLocalPaths(makeTestRoot());
  const lines: string[] = [];
  const pids = openPidRegistry(paths.pids, (line) => lines.push(line));
  const spec: ProcessSpec = {
    name: "sample",
    command: process.execPath,
    args: ["-e", script],
    env: {},
    ready: /ready/,
    log: openLogFile(paths.log("sample")),
    ...options,
  };
  const context: ComponentContext = { paths, pids, log: (line) => lines.push(line) };
  const start = (more: Partial<ProcessSpec> = {}) => startProcess({ ...spec, ...more }, pids);
  return { start, context, lines, paths };
}

const STAYS = "console.log('ready'); setInterval(() => {}, 1000);";
const READY_WITH_FILE =
  "setInterval(() => { if (require('fs').existsSync(process.argv[1])) console.log('ready'); }, 20)";
/** File behind an open descriptor; undefined if the descriptor is closed by now. */
function targetOf(fd: string): string | undefined {
  try {
    return fs.readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return undefined;
  }
}

const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.fail("should fail"),
    (error: Error) => error.message,
  );

describe("startProcess", () => {
  it("a failed start reports the reason and the last lines of output", async () => {
    const sample = await setUp("console.error('no such thing'); process.exit(7)").start();
    const message = await failure(sample.waitUntilReady());
    expect(message).to.include("sample did not start: it ended with code 7").and.include("no such thing");
  });

  it("a start of a missing program reports its name", async () => {
    const { start } = setUp("", { command: "/nowhere/program" });
    const message = await failure(start().then((sample) => sample.waitUntilReady()));
    expect(message)
      .to.match(/(sample did not start|Cannot start sample)/)
      .and.include("/nowhere/program");
  });

  it("a process that cannot be started leaves no open log file", async () => {
    const { start, paths } = setUp("", { command: "/nowhere/program", cwd: "/nowhere" });
    for (let attempt = 0; attempt < 3; attempt += 1)
      await failure(start().then((sample) => sample.waitUntilReady()));
    await failure(start({ args: ["a\0b"] }));
    const open = fs.readdirSync("/proc/self/fd").filter((fd) => targetOf(fd) === paths.log("sample"));
    expect(open).to.eql([]);
  });

  it("a process that ignores its stop signal is killed", async () => {
    const sample = await setUp(`process.on('SIGTERM', () => {}); ${STAYS}`, { stopTimeoutMs: 200 }).start();
    await sample.waitUntilReady();
    await sample.stop();
    expect((await sample.exited).signal).to.equal("SIGKILL");
  });
});

describe("createComponent", () => {
  it("a component that dies is restarted and reported", async () => {
    const { start, context, lines } = setUp(STAYS);
    const component = createComponent(
      { name: "sample", launch: () => start() },
      { ...context, restart: true },
    );
    await component.start();
    const first = component.pid!;
    process.kill(first, "SIGKILL");
    await eventually("a new process", () => component.pid !== undefined && component.pid !== first);
    await component.waitUntilReady();
    expect(lines)
      .to.include(`sample (pid ${first}) died with SIGKILL.`)
      .and.include("Restarting sample in 0.25 s.");
    await component.stop();
  });

  it("a slow restart is reported and not killed", async () => {
    const { start, context, lines, paths } = setUp(READY_WITH_FILE);
    const gate = path.join(paths.root, "gate");
    fs.writeFileSync(gate, "");
    const launch = () => start({ args: ["-e", READY_WITH_FILE, gate] });
    const component = createComponent({ name: "sample", launch }, { ...context, restart: true });
    await component.start();
    fs.rmSync(gate);
    const first = component.pid!;
    process.kill(first, "SIGKILL");
    const second = await eventually("a new process", () => component.pid !== first && component.pid);
    process.kill(second, "SIGSTOP"); // as slow as a process can be
    const report = await eventually("a report", () => lines.find((line) => line.includes("still running")));
    expect(report).to.match(/^ {2}… restart of sample: still running after \d+\.\d s$/);
    process.kill(second, "SIGCONT");
    fs.writeFileSync(gate, "");
    await eventually("it runs", () => lines.includes("sample is running again."));
    expect(component.pid).to.equal(second);
    await component.stop();
  });

  it("the delay before a restart grows if the process keeps dying", async () => {
    const { start, context, lines } = setUp("console.log('ready'); setTimeout(() => process.exit(1), 10)");
    const component = createComponent(
      { name: "sample", launch: () => start() },
      { ...context, restart: true },
    );
    await component.start();
    const waits = () => lines.filter((line) => line.startsWith("Restarting sample in"));
    await eventually("five restarts", () => waits().length >= 5);
    expect(
      waits()
        .slice(0, 5)
        .map((line) => /([\d.]+) s\.$/.exec(line)?.[1]),
    ).to.eql(["0.25", "0.5", "1", "2", "4"]);
    await component.stop();
  });

  it("a start during the delay before a restart runs only one process", async () => {
    const { start, context, lines } = setUp(STAYS);
    const component = createComponent(
      { name: "sample", launch: () => start() },
      { ...context, restart: true },
    );
    await component.start();
    process.kill(component.pid!, "SIGKILL");
    await eventually("the delay", () => lines.some((line) => line.startsWith("Restarting sample in")));
    await component.start();
    const second = component.pid!;
    process.kill(second, "SIGKILL");
    await eventually("it runs again", () => lines.includes("sample is running again."));
    expect(lines.filter((line) => line.startsWith("Restarting sample in"))).to.have.length(2);
    await component.stop();
  });

  it("stopping the stack ends a start in progress and prevents further starts", async () => {
    const { start, context } = setUp("setInterval(() => {}, 1000)");
    const stack = new AbortController();
    const component = createComponent(
      { name: "sample", launch: () => start() },
      { ...context, signal: stack.signal },
    );
    const message = failure(component.start());
    const pid = await eventually("a process", () => component.pid);
    stack.abort();
    expect(await message).to.include("sample did not start: it ended with SIGTERM");
    expect(readProcessIdentity(pid)).to.equal(undefined);
    expect(await failure(component.start())).to.equal(
      "sample was not started because the stack is stopping.",
    );
  });

  it("a process that hangs is killed and restarted", async () => {
    const { start, context, lines } = setUp(STAYS);
    let asked = 0;
    const watch = async () => (asked++ === 0 ? "it answers nobody" : undefined);
    const component = createComponent(
      { name: "sample", launch: () => start(), watch },
      { ...context, restart: true },
    );
    await component.start();
    await eventually("it runs again", () => lines.includes("sample is running again."));
    expect(lines[0]).to.match(/^Restarting sample \(pid \d+\): it answers nobody\.$/);
    await component.stop();
  });

  it("a failed first start is reported to the caller and not retried", async () => {
    const { start, context, lines } = setUp("process.exit(3)");
    const component = createComponent(
      { name: "sample", launch: () => start() },
      { ...context, restart: true },
    );
    expect(await failure(component.start())).to.include("ended with code 3");
    expect([component.pid, lines]).to.eql([undefined, []]);
  });

  it("a component that was stopped or killed on purpose stays down", async () => {
    const { start, context, lines } = setUp(STAYS);
    const component = createComponent(
      { name: "sample", launch: () => start() },
      { ...context, restart: true },
    );
    await component.start();
    await component.kill();
    expect(component.pid).to.equal(undefined);
    await component.start();
    await component.stop();
    expect(component.pid).to.equal(undefined);
    expect(lines).to.eql([]);
  });
});

describe("PidRegistry", () => {
  it("leftover processes of a killed supervisor are stopped", async () => {
    const { start, paths, lines } = setUp(STAYS);
    const sample = await start();
    await sample.waitUntilReady();
    await openPidRegistry(paths.pids, (line) => lines.push(line)).stopLeftovers();
    expect(readProcessIdentity(sample.pid)).to.equal(undefined);
    expect(lines[0]).to.include(`Stopping sample (pid ${sample.pid})`);
    await sample.exited;
  });

  it("a process that only has the same pid as a leftover is not touched", async () => {
    const { start, paths } = setUp(STAYS);
    const sample = await start();
    await sample.waitUntilReady();
    const recorded = fs.readFileSync(paths.pids, "utf8").replace(/:\d+"/, ':1"');
    const other = path.join(paths.root, "other.json");
    fs.writeFileSync(other, recorded);
    await openPidRegistry(other, () => undefined).stopLeftovers();
    expect(readProcessIdentity(sample.pid)).to.be.a("string");
    await sample.stop();
  });
});
