import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { readProcessIdentity } from "../../../../deploy/local/setup/pid-lock.mjs";
import { openPidRegistry } from "../../../../deploy/local/setup/pid-registry.ts";
import { getLocalPaths } from "../../../../deploy/local/setup/project.ts";
import type { ComponentContext } from "../../../../deploy/local/supervisor/component.ts";
import { openLogFile } from "../../../../deploy/local/supervisor/log-file.ts";
import { type ProcessSpec, startProcess } from "../../../../deploy/local/supervisor/process.ts";
import { type ComponentDefinition, createComponent } from "../../../../deploy/local/supervisor/supervised-process.ts";
import { eventually } from "../../../support/eventually.ts";
import { makeTestRoot } from "../../../support/stack.ts";

function setUp(script: string, options: Partial<ProcessSpec> = {}) {
  const paths = getLocalPaths(makeTestRoot());
  const lines: string[] = [];
  const log = (line: string) => lines.push(line);
  const pids = openPidRegistry(paths.pids, log);
  const spec: ProcessSpec = {
    name: "sample",
    command: process.execPath,
    args: ["-e", script],
    env: {},
    readinessCheck: /ready/,
    log: openLogFile(paths.log("sample")),
    ...options,
  };
  const context: ComponentContext = { paths, pids, log, shouldRestart: true };
  const start = (overrides: Partial<ProcessSpec> = {}) => startProcess({ ...spec, ...overrides }, pids);
  const createSample = (options: { watch?: ComponentDefinition["watch"]; signal?: AbortSignal } = {}) => {
    const { watch, signal } = options;
    const definition = { name: "sample", prepareProcess: () => spec, ...(watch && { watch }) };
    return createComponent(definition, { ...context, signal });
  };
  return { start, createSample, lines, paths };
}

/** Script that immediately becomes ready and keeps running. */
const READY_SCRIPT = "console.log('ready'); setInterval(() => {}, 1000);";
/** Script that becomes ready when a certain file exists. The script's first argument is the path of that file. */
const READY_WITH_FILE_SCRIPT =
  "setInterval(() => { if (require('fs').existsSync(process.argv[1])) console.log('ready'); }, 20)";
/** Returns the path of an open file descriptor; undefined if the descriptor is closed. */
function readDescriptorPath(fd: string): string | undefined {
  try {
    return fs.readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return undefined;
  }
}

const getError = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.fail("should fail"),
    (error: Error) => error.message,
  );

describe("startProcess", () => {
  it("startProcess reports the reason and the last lines of output if the process does not become ready", async () => {
    const sampleProcess = await setUp("console.error('no such thing'); process.exit(7)").start();
    const message = await getError(sampleProcess.waitUntilReady());
    expect(message).to.include("sample did not start: it ended with code 7").and.include("no such thing");
  });

  it("startProcess reports the name of a program that does not exist", async () => {
    const { start } = setUp("", { command: "/nowhere/program" });
    const message = await getError(start().then((sample) => sample.waitUntilReady()));
    expect(message)
      .to.match(/(sample did not start|Cannot start sample)/)
      .and.include("/nowhere/program");
  });

  it("startProcess closes the log file if the process cannot be started", async () => {
    const { start, paths } = setUp("", { command: "/nowhere/program", cwd: "/nowhere" });
    for (let attempt = 0; attempt < 3; attempt += 1) await getError(start().then((sample) => sample.waitUntilReady()));
    await getError(start({ args: ["a\0b"] }));
    const openFds = fs.readdirSync("/proc/self/fd").filter((fd) => readDescriptorPath(fd) === paths.log("sample"));
    expect(openFds).to.eql([]);
  });

  it("a process that ignores the stop signal is killed after the time limit", async () => {
    const sampleProcess = await setUp(`process.on('SIGTERM', () => {}); ${READY_SCRIPT}`, {
      stopTimeoutMs: 200,
    }).start();
    await sampleProcess.waitUntilReady();
    await sampleProcess.stop();
    expect((await sampleProcess.exitPromise).signal).to.equal("SIGKILL");
  });
});

describe("createComponent", () => {
  it("the supervisor restarts a process that dies, and reports the restart", async () => {
    const { createSample, lines } = setUp(READY_SCRIPT);
    const component = createSample();
    await component.start();
    const firstPid = component.pid!;
    process.kill(firstPid, "SIGKILL");
    await eventually("a new process", () => component.pid !== undefined && component.pid !== firstPid);
    await component.waitUntilReady();
    expect(lines).to.include(`sample (pid ${firstPid}) died with SIGKILL.`).and.include("Restarting sample in 0.25 s.");
    await component.stop();
  });

  it("the supervisor reports a slow restart and does not kill the process", async () => {
    const gatePath = path.join(makeTestRoot(), "gate");
    fs.writeFileSync(gatePath, "");
    const { createSample, lines } = setUp("", { args: ["-e", READY_WITH_FILE_SCRIPT, gatePath] });
    const component = createSample();
    await component.start();
    fs.rmSync(gatePath);
    const firstPid = component.pid!;
    process.kill(firstPid, "SIGKILL");
    const secondPid = await eventually("a new process", () => component.pid !== firstPid && component.pid);
    process.kill(secondPid, "SIGSTOP"); // while the process is stopped, it cannot become ready
    const report = await eventually("a report", () => lines.find((line) => line.includes("still running")));
    expect(report).to.match(/^ {2}… restart of sample: still running after \d+\.\d s$/);
    process.kill(secondPid, "SIGCONT");
    fs.writeFileSync(gatePath, "");
    await eventually("the process runs again", () => lines.includes("sample is running again."));
    expect(component.pid).to.equal(secondPid);
    await component.stop();
  });

  it("the delay before a restart doubles if the process dies repeatedly", async () => {
    const { createSample, lines } = setUp("console.log('ready'); setTimeout(() => process.exit(1), 10)");
    const component = createSample();
    await component.start();
    const findRestartLines = () => lines.filter((line) => line.startsWith("Restarting sample in"));
    await eventually("five restarts", () => findRestartLines().length >= 5);
    expect(
      findRestartLines()
        .slice(0, 5)
        .map((line) => /([\d.]+) s\.$/.exec(line)?.[1]),
    ).to.eql(["0.25", "0.5", "1", "2", "4"]);
    await component.stop();
  });

  it("starting a component during the delay before a restart does not create a second process", async () => {
    const { createSample, lines } = setUp(READY_SCRIPT);
    const component = createSample();
    await component.start();
    process.kill(component.pid!, "SIGKILL");
    await eventually("the delay", () => lines.some((line) => line.startsWith("Restarting sample in")));
    await component.start();
    const secondPid = component.pid!;
    process.kill(secondPid, "SIGKILL");
    await eventually("the process runs again", () => lines.includes("sample is running again."));
    expect(lines.filter((line) => line.startsWith("Restarting sample in"))).to.have.length(2);
    await component.stop();
  });

  it("stopping the stack cancels a start that is in progress and prevents further starts", async () => {
    const { createSample } = setUp("setInterval(() => {}, 1000)");
    const controller = new AbortController();
    const component = createSample({ signal: controller.signal });
    const message = getError(component.start());
    const pid = await eventually("a process", () => component.pid);
    controller.abort();
    expect(await message).to.include("sample did not start: it ended with SIGTERM");
    expect(readProcessIdentity(pid)).to.equal(undefined);
    expect(await getError(component.start())).to.equal("sample was not started because the stack is stopping.");
  });

  it("the supervisor kills and restarts a process that hangs", async () => {
    const { createSample, lines } = setUp(READY_SCRIPT);
    let checkCount = 0;
    const watch = async () => (checkCount++ === 0 ? "it does not respond" : undefined);
    const component = createSample({ watch });
    await component.start();
    await eventually("the process runs again", () => lines.includes("sample is running again."));
    expect(lines[0]).to.match(/^Restarting sample \(pid \d+\): it does not respond\.$/);
    await component.stop();
  });

  it("a failed first start is reported to the caller and not retried", async () => {
    const { createSample, lines } = setUp("process.exit(3)");
    const component = createSample();
    expect(await getError(component.start())).to.include("ended with code 3");
    expect([component.pid, lines]).to.eql([undefined, []]);
  });

  it("the supervisor does not restart a component that was stopped or killed deliberately", async () => {
    const { createSample, lines } = setUp(READY_SCRIPT);
    const component = createSample();
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
  it("the pid registry stops the processes of a killed supervisor", async () => {
    const { start, paths, lines } = setUp(READY_SCRIPT);
    const sampleProcess = await start();
    await sampleProcess.waitUntilReady();
    await openPidRegistry(paths.pids, (line) => lines.push(line)).stopLeftovers();
    expect(readProcessIdentity(sampleProcess.pid)).to.equal(undefined);
    expect(lines[0]).to.include(`Stopping sample (pid ${sampleProcess.pid})`);
    await sampleProcess.exitPromise;
  });

  it("the pid registry does not stop an unrelated process that now has a recorded pid", async () => {
    const { start, paths } = setUp(READY_SCRIPT);
    const sampleProcess = await start();
    await sampleProcess.waitUntilReady();
    const registryText = fs.readFileSync(paths.pids, "utf8").replace(/:\d+"/, ':1"');
    const otherRegistryPath = path.join(paths.root, "other.json");
    fs.writeFileSync(otherRegistryPath, registryText);
    await openPidRegistry(otherRegistryPath, () => undefined).stopLeftovers();
    expect(readProcessIdentity(sampleProcess.pid)).to.be.a("string");
    await sampleProcess.stop();
  });
});
