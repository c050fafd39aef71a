import { spawnSync } from "node:child_process";
import fs from "node:fs";
import { expect } from "chai";
import { PROJECT_FOLDER } from "../../../deploy/local/setup/project.ts";

describe("the terminal of a command line", () => {
  it("a command says that its output could not be written, for example to a full disk", () => {
    const fullDevice = fs.openSync("/dev/full", "w");
    try {
      const args = ["--import", "./deploy/local/setup/tsx.mjs", "command/cli/main.ts", "--help"];
      const stdio: ["ignore", number, "pipe"] = ["ignore", fullDevice, "pipe"];
      const { status, stderr } = spawnSync(process.execPath, args, { cwd: PROJECT_FOLDER, stdio, encoding: "utf8" });
      expect([status, stderr]).to.deep.equal([
        1,
        "standard output cannot be written: ENOSPC: no space left on device, write\n",
      ]);
    } finally {
      fs.closeSync(fullDevice);
    }
  });
});
