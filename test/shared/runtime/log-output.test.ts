import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { withDeathSignal } from "../../../deploy/local/setup/processes.mjs";
import { buildNodeCommand, PROJECT_FOLDER } from "../../../deploy/local/setup/project.ts";
import { eventually } from "../../support/eventually.ts";
import { mountSmallDisk } from "../../support/small-disk.ts";

const runningProcesses = new Set<ChildProcess>();

/** Starts a process that logs constantly. As a sign of life, it also writes dots to standard error. */
function startTalker(stdout: number | "pipe"): { child: ChildProcess; countBeats: () => number } {
  const { command, args } = buildNodeCommand("test/shared/runtime/talker.ts");
  const child = spawn(...withDeathSignal("SIGKILL", command, args), {
    cwd: PROJECT_FOLDER,
    stdio: ["ignore", stdout, "pipe"],
  });
  runningProcesses.add(child);
  let beatCount = 0;
  child.stderr?.on("data", (chunk: Buffer) => {
    beatCount += chunk.length;
  });
  return { child, countBeats: () => beatCount };
}

async function expectRunning({ child, countBeats }: ReturnType<typeof startTalker>): Promise<void> {
  const beatCountBefore = countBeats();
  await eventually(
    "the process continues to run",
    () => countBeats() > beatCountBefore + 20 || child.exitCode !== null,
  );
  expect(child.exitCode).to.equal(null);
}

async function killProcess(child: ChildProcess): Promise<void> {
  runningProcesses.delete(child);
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exitPromise = once(child, "exit");
  child.kill("SIGKILL");
  await exitPromise;
}

describe("a process that logs", () => {
  afterEach(() => Promise.all([...runningProcesses].map(killProcess)));

  it("a process whose log cannot be written continues to run and stops normally", async () => {
    const fullDeviceFd = fs.openSync("/dev/full", "w");
    const talker = startTalker(fullDeviceFd);
    fs.closeSync(fullDeviceFd);
    await expectRunning(talker);
    const exitPromise = once(talker.child, "exit");
    talker.child.kill("SIGTERM");
    expect(await exitPromise).to.eql([0, null]);
  });

  it("a process continues to run after the reader of the log has closed the pipe", async () => {
    const talker = startTalker("pipe");
    await once(talker.child.stdout!, "data");
    talker.child.stdout!.destroy();
    await expectRunning(talker);
  });

  it("a process continues to run after the reader of the log has stopped reading", async () => {
    const talker = startTalker("pipe");
    await once(talker.child.stdout!, "data");
    talker.child.stdout!.pause();
    await expectRunning(talker);
  });

  it("when the disk has space again, the log reports the number of lost lines and the time of the first lost line", async function () {
    const disk = mountSmallDisk(this, 8);
    const file = path.join(disk.folder, "service.log");
    try {
      const startTime = new Date().toISOString();
      const fileDescriptor = fs.openSync(file, "a");
      const talker = startTalker(fileDescriptor);
      fs.closeSync(fileDescriptor);
      await eventually("a line", () => fs.statSync(file).size > 0);
      disk.fill();
      await expectRunning(talker);
      // The process soon logs more than the megabyte that it buffers.
      const beatCountBefore = talker.countBeats();
      await eventually("the process logs more than it buffers", () => talker.countBeats() > beatCountBefore + 100);
      disk.free();
      const readLog = () => fs.readFileSync(file, "utf8");
      const [, line = ""] = await eventually(
        "the report, and a line after it",
        () => /^(.*log lines were lost.*)\n.*"number"/m.exec(readLog()) ?? undefined,
      );
      await killProcess(talker.child);
      const report = JSON.parse(line) as Record<string, unknown>;
      expect(report).to.include({ level: "warn", service: "talker" });
      expect(report.lost).to.be.a("number").and.greaterThan(0);
      expect(String(report.since) > startTime).to.equal(true);
      expect(countMissingNumbers(readLog()), "numbers that are missing").to.equal(report.lost);
    } finally {
      disk.remove();
    }
  });
});

/** Returns the number of missing numbers between the first and the last numbered line. */
function countMissingNumbers(text: string): number {
  const numbers = [...text.matchAll(/"number":(\d+),"text":"x+","msg":"talks"}$/gm)].map(([, number]) =>
    Number(number),
  );
  return (numbers.at(-1) ?? 0) - (numbers[0] ?? 0) + 1 - numbers.length;
}
