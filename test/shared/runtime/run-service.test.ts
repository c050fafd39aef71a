import { spawnSync } from "node:child_process";
import { expect } from "chai";

const SERVICE_SCRIPT = `
import { runService, StartError } from "./shared/runtime/run-service.ts";
await runService("demo", async () => {
  throw new StartError("cannot listen", { cause: new Error("the port\\nis taken", { cause: "by another" }) });
});`;

describe("a service that cannot start", () => {
  it("a service that cannot start prints one line with the causes and exits with 1", () => {
    const args = ["--import", "tsx", "--input-type=module", "--eval", SERVICE_SCRIPT];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
    expect({ status, stdout, stderr }).to.deep.equal({
      status: 1,
      stdout: "",
      stderr: "demo: cannot listen (Error: the port is taken (by another))\n",
    });
  });
});
