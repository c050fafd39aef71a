import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { withDeathSignal } from "../../../deploy/local/setup/death-signal.mjs";
import { nodeEntry, PROJECT } from "../../../deploy/local/setup/project.ts";
import { eventually } from "../../support/eventually.ts";
import { mountSmallDisk } from "../../support/small-disk.ts";

const running = new Set<ChildProcess>();

/** A process that logs at every turn and beats on its standard error as long as it lives. */
function startTalker(stdout: number | "pipe"): { child: ChildProcess; beats: () => number } {
  const { command, args } = nodeEntry("test/shared/runtime/talker.ts");
  const child = spawn(...withDeathSignal("SIGKILL", command, args), {
    cwd: PROJECT,
    stdio: ["ignore", stdout, "pipe"],
  });
  running.add(child);
  let beats = 0;
  child.stderr?.on("data", (chunk: Buffer) => {
    beats += chunk.length;
  });
  return { child, beats: () => beats };
}

async function livesOn({ child, beats }: ReturnType<typeof startTalker>): Promise<void> {
  const before = beats();
  await eventually("it lives on", () => beats() > before + 20 || child.exitCode !== null);
  expect(child.exitCode).to.equal(null);
}

async function end(child: ChildProcess): Promise<void> {
  running.delete(child);
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}

describe("a process that logs", () => {
  afterEach(() => Promise.all([...running].map(end)));

  it("lives on when its log cannot be written, and ends in order", async () => {
    const full = fs.openSync("/dev/full", "w");
    const talker = startTalker(full);
    fs.closeSync(full);
    await livesOn(talker);
    const exited = once(talker.child, "exit");
    talker.child.kill("SIGTERM");
    expect(await exited).to.eql([0, null]);
  });

  it("lives on when the reader of its log has gone", async () => {
    const talker = startTalker("pipe");
    await once(talker.child.stdout!, "data");
    talker.child.stdout!.destroy();
    await livesOn(talker);
  });

  it("lives on when the reader of its log reads no more", async () => {
    const talker = startTalker("pipe");
    await once(talker.child.stdout!, "data");
    talker.child.stdout!.pause();
    await livesOn(talker);
  });

  it("reports how many lines were lost since when once the disk has space again", async function () {
    const disk = mountSmallDisk(this, 8);
    const file = path.join(disk.folder, "service.log");
    try {
      const began = new Date().toISOString();
      const target = fs.openSync(file, "a");
      const talker = startTalker(target);
      fs.closeSync(target);
      await eventually("a line", () => fs.statSync(file).size > 0);
      disk.fill();
      await livesOn(talker);
      // It logs a megabyte within moments: more than it keeps.
      const before = talker.beats();
      await eventually("more than it keeps", () => talker.beats() > before + 100);
      disk.free();
      const text = () => fs.readFileSync(file, "utf8");
      const [, line = ""] = await eventually(
        "the report, and a line after it",
        () => /^(.*log lines were lost.*)\n.*"number"/m.exec(text()) ?? undefined,
      );
      await end(talker.child);
      const report = JSON.parse(line) as Record<string, unknown>;
      expect(report).to.include({ level: "warn", service: "talker" });
      expect(report.lost).to.be.a("number").and.greaterThan(0);
      expect(String(report.since) > began).to.equal(true);
      expect(losses(text()), "numbers that are missing").to.equal(report.lost);
    } finally {
      disk.remove();
    }
  });
});

/** How many numbers are missing between the first and the last of the numbered lines. */
function losses(text: string): number {
  const numbers = [...text.matchAll(/"number":(\d+),"text":"x+","msg":"talks"}$/gm)].map(([, number]) =>
    Number(number),
  );
  return (numbers.at(-1) ?? 0) - (numbers[0] ?? 0) + 1 - numbers.length;
}
