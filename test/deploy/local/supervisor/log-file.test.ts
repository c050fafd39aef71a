import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { openLogFile } from "../../../../deploy/local/supervisor/log-file.ts";
import { eventually } from "../../../support/eventually.ts";
import { mountSmallDisk, type SmallDisk } from "../../../support/small-disk.ts";
import { makeTestRoot } from "../../../support/stack.ts";

describe("openLogFile on a full disk", () => {
  let disk: SmallDisk;

  beforeEach(function () {
    disk = mountSmallDisk(this, 1);
  });

  afterEach(() => disk?.remove());

  it("writing to a log file on a full disk never throws, and lost lines are reported when the disk has space", async () => {
    const file = path.join(disk.folder, "logs", "sample.log");
    const log = openLogFile(file);
    log.write(Buffer.from("first\n"));
    disk.fill();
    const timeBefore = new Date().toISOString();
    // Writes more than fits into the file's last page, so that one line is written incompletely.
    for (let line = 0; line < 500; line += 1) log.write(Buffer.from(`${"x".repeat(99)}\n`));
    log.write(Buffer.from("two\nlines\n"));
    expect(log.getLastLines().at(-1), "last lines for the message of a failed start").to.equal("lines");
    disk.free();
    const report = await eventually(
      "the report",
      () => /^--- (\d+) log lines were lost since (\S+) because /m.exec(fs.readFileSync(file, "utf8")) ?? undefined,
    );
    const writtenCount = fs.readFileSync(file, "utf8").match(/^x{99}$/gm)?.length ?? 0;
    expect(Number(report[1])).to.equal(502 - writtenCount);
    expect(report[2]! >= timeBefore && report[2]! <= new Date().toISOString()).to.equal(true);
    log.write(Buffer.from("last\n"));
    log.close();
    expect(fs.readFileSync(file, "utf8")).to.match(/could not be written\nlast\n$/);
  });

  it("a closed log file reports lost lines when the disk has space", async () => {
    disk.fill();
    const file = path.join(disk.folder, "logs", "sample.log");
    const log = openLogFile(file);
    log.write(Buffer.from("lost\n".repeat(10_000)));
    log.close();
    disk.free();
    await eventually(
      "the report",
      () => fs.existsSync(file) && fs.readFileSync(file, "utf8").includes("log lines were lost"),
    );
  });

  it("a log file that could not be created is created when the disk has space", async () => {
    disk.fill();
    const file = path.join(disk.folder, "logs", "sample.log");
    const log = openLogFile(file);
    log.write(Buffer.from("lost\n".repeat(10_000)));
    disk.free();
    log.write(Buffer.from("kept\n"));
    log.close();
    expect(fs.readFileSync(file, "utf8")).to.match(
      /^(lost\n)*(l|lo|los|lost)?\n?--- \d+ log lines were lost .*\nkept\n$/,
    );
  });
});

describe("openLogFile", () => {
  it("writing to a log file never throws, even if every write fails", () => {
    const file = path.join(makeTestRoot(), "sample.log");
    fs.symlinkSync("/dev/full", file);
    const log = openLogFile(file);
    for (let line = 0; line < 100; line += 1) log.write(Buffer.from("lost\n"));
    expect(log.getLastLines()).to.include("lost");
    log.close();
  });
});
