import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { findLockHolder, tryLock } from "../../../../deploy/local/setup/pid-lock.mjs";
import { makeTestRoot } from "../../../support/stack.ts";

describe("tryLock", () => {
  it("tryLock and findLockHolder work on a system without /proc, where process identities contain spaces", () => {
    const file = path.join(makeTestRoot(), "lock");
    const { readFileSync, existsSync } = fs;
    const isProcPath = (name: fs.PathOrFileDescriptor) => String(name).startsWith("/proc/");
    try {
      fs.existsSync = (name) => !isProcPath(name as string) && existsSync(name);
      fs.readFileSync = ((name: fs.PathOrFileDescriptor, options: "utf8") => {
        if (isProcPath(name)) throw Object.assign(new Error("no /proc"), { code: "ENOENT" });
        return readFileSync(name, options);
      }) as typeof fs.readFileSync;
      const { release } = tryLock(file);
      expect(findLockHolder(file)).to.eql({ pid: process.pid });
      expect(tryLock(file).holder).to.eql({ pid: process.pid });
      release?.();
    } finally {
      Object.assign(fs, { readFileSync, existsSync });
    }
    expect(findLockHolder(file)).to.equal(undefined);
  });
});
