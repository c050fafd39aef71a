import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { findLockHolder, tryLock } from "../../../deploy/local/setup/processes.mjs";
import { makeTestRoot } from "../../support/stack.ts";

describe("a lock file", () => {
  const file = path.join(makeTestRoot(), "lock");

  it("names the live process that holds it, and no process after its release", () => {
    const { release } = tryLock(file);
    expect(findLockHolder(file)).to.deep.equal({ pid: process.pid });
    expect(tryLock(file).holder).to.deep.equal({ pid: process.pid });
    release?.();
    expect(findLockHolder(file)).to.equal(undefined);
  });

  it("has no holder if it is a file of something else, or names a dead process", () => {
    fs.writeFileSync(`${file}.txt`, "");
    fs.symlinkSync(`${process.pid} another start`, `${file}.dead`);
    expect(findLockHolder(`${file}.txt`)).to.equal(undefined);
    expect(findLockHolder(`${file}.dead`)).to.equal(undefined);
  });

  it("can be read while another process creates and deletes it", async () => {
    const program = `
      const fs = require("node:fs");
      process.stdout.write("started");
      for (;;) { fs.symlinkSync("1 dead", ${JSON.stringify(file)}); fs.rmSync(${JSON.stringify(file)}); }`;
    const other = spawn(process.execPath, ["-e", program], { stdio: ["ignore", "pipe", "inherit"] });
    await once(other.stdout, "data");
    try {
      for (let attempt = 0; attempt < 20_000; attempt++) findLockHolder(file);
    } finally {
      other.kill("SIGKILL");
    }
  });
});
