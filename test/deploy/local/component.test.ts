import { existsSync, mkdirSync } from "node:fs";
import { expect } from "chai";
import { readProcessIdentity } from "../../../deploy/local/setup/processes.mjs";
import { getLocalPaths } from "../../../deploy/local/setup/project.ts";
import { createComponent, type ProcessSpec } from "../../../deploy/local/supervisor/component.ts";
import { eventually } from "../../support/eventually.ts";
import { getRejection } from "../../support/rejection.ts";
import { makeTestRoot } from "../../support/stack.ts";

function setUp(script: string, options: Partial<ProcessSpec> & { signal?: AbortSignal } = {}) {
  const paths = getLocalPaths(makeTestRoot());
  mkdirSync(paths.logs);
  const readyFile = `${paths.root}/ready`;
  const lines: string[] = [];
  const { signal, ...overrides } = options;
  const spec: ProcessSpec = {
    command: process.execPath,
    args: ["-e", script, readyFile],
    env: {},
    cwd: "/",
    isReady: async () => existsSync(readyFile),
    ...overrides,
  };
  const context = { paths, log: (line: string) => lines.push(line), shouldRestart: true, signal };
  return { component: createComponent("sample", () => spec, context), lines };
}

/** Script that immediately becomes ready and keeps running. */
const READY_SCRIPT = "require('fs').writeFileSync(process.argv[1], ''); setInterval(() => {}, 1000);";

describe("createComponent", () => {
  it("a failed first start is reported with the last lines of output, and is not retried", async () => {
    const { component, lines } = setUp("console.error('no such thing'); process.exit(7)");
    const message = (await getRejection(component.start())).message;
    expect(message).to.include("sample did not start: it ended with code 7").and.include("no such thing");
    expect([component.pid, lines]).to.eql([undefined, []]);
  });

  it("the error names a program that does not exist", async () => {
    const { component } = setUp("", { command: "/nowhere/program" });
    expect((await getRejection(component.start())).message)
      .to.include("sample did not start")
      .and.include("/nowhere/program");
  });

  it("a process that ignores the stop signal is killed after the time limit", async () => {
    const { component } = setUp(`process.on('SIGTERM', () => {}); ${READY_SCRIPT}`, { stopTimeoutMs: 200 });
    await component.start();
    const pid = component.pid!;
    await component.stop();
    expect([component.pid, readProcessIdentity(pid)]).to.eql([undefined, undefined]);
  });

  it("a process that ends by itself is started again, and the restart is reported", async () => {
    const { component, lines } = setUp(READY_SCRIPT);
    await component.start();
    const firstPid = component.pid!;
    process.kill(firstPid, "SIGKILL");
    await eventually("a new process", () => component.pid !== undefined && component.pid !== firstPid);
    await eventually("the report", () => lines.includes("sample is running again."));
    expect(lines).to.include(`sample (pid ${firstPid}) ended with SIGKILL. Starting it again.`);
    await component.stop();
  });

  it("starting a component that is about to be restarted does not create a second process", async () => {
    const { component, lines } = setUp(READY_SCRIPT);
    await component.start();
    process.kill(component.pid!, "SIGKILL");
    await eventually("the end of the process", () => lines.length > 0);
    await component.start();
    const secondPid = component.pid!;
    process.kill(secondPid, "SIGKILL");
    await eventually("the process runs again", () => lines.includes("sample is running again."));
    expect(lines).to.have.length(3);
    await component.stop();
  });

  it("stopping the stack cancels a start that is in progress and prevents further starts", async () => {
    const controller = new AbortController();
    const { component } = setUp("setInterval(() => {}, 1000)", { signal: controller.signal });
    const message = getRejection(component.start()).then((error) => error.message);
    const pid = await eventually("a process", () => component.pid);
    controller.abort();
    expect(await message).to.include("sample did not start: it ended with SIGTERM");
    expect(readProcessIdentity(pid)).to.equal(undefined);
    expect((await getRejection(component.start())).message).to.equal(
      "sample was not started because the stack is stopping.",
    );
  });

  it("a component that was stopped or killed deliberately is not restarted", async () => {
    const { component, lines } = setUp(READY_SCRIPT);
    await component.start();
    await component.kill();
    expect(component.pid).to.equal(undefined);
    await component.start();
    await component.stop();
    expect([component.pid, lines]).to.eql([undefined, []]);
  });
});
