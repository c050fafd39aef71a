import { expect } from "chai";
import { collect, event } from "../../conformance/log-under-test.ts";
import { LogProcess, temporaryDir } from "./log-process.ts";

describe("starting the embedded log", function () {
  this.timeout(60_000);
  let dir: string;
  let remove: () => Promise<void>;

  beforeEach(async () => {
    ({ dir, remove } = await temporaryDir());
  });
  afterEach(() => remove());

  async function refusal(args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await new LogProcess(args).ended;
    expect(code).to.equal(1);
    expect(stdout).to.equal("");
    expect(stderr.trimEnd().split("\n")).to.have.length(1);
    return stderr;
  }

  it("prints one line on standard output, and makes the directory", async () => {
    const log = await LogProcess.start(`${dir}/new/deep`);
    expect(log.port).to.be.greaterThan(0);
    const { code, stdout, stderr } = await log.end();
    expect(code).to.equal(0);
    expect(stdout).to.equal(`listening ${log.port}\n`);
    expect(stderr).to.equal("");
  });

  it("refuses a directory that another process has, in one line", async () => {
    const log = await LogProcess.start(dir);
    expect(await refusal(["--dir", dir, "--port", "0"])).to.include(`${dir} is in use by another process`);
    await log.end();
  });

  it("refuses a port in use, in one line, and leaves the directory free", async () => {
    const log = await LogProcess.start(dir);
    const other = await temporaryDir();
    const args = ["--dir", other.dir, "--port", String(log.port)];
    expect(await refusal(args)).to.include(`Port ${log.port} on 127.0.0.1 is in use`);
    await log.end();
    await (await LogProcess.start(other.dir)).end();
    await other.remove();
  });

  it("refuses missing and wrong arguments, in one line", async () => {
    expect(await refusal(["--port", "0"])).to.include("--dir is missing");
    expect(await refusal(["--dir", dir])).to.include("--port is missing");
    expect(await refusal(["--dir", dir, "--port", "many"])).to.include("--port must be a number");
    expect(await refusal(["--dir", dir, "--port", "70000"])).to.include("--port must be at most 65535");
    expect(await refusal(["--dir", dir, "--port", "0", "--colour", "red"])).to.include("--colour");
  });

  it("finds everything again after an orderly end, and goes on behind it", async () => {
    const first = await LogProcess.start(dir);
    const one = first.client();
    const pair = [event(0), event(1)];
    const { position } = await one.appendToStream("kept", pair, { expectedRevision: "no_stream" });
    await one.deleteStream("kept");
    await one.appendToStream("kept", event(2));
    await one.tombstoneStream("closed");
    await one.dispose();
    await first.end();

    const second = await LogProcess.start(dir);
    const two = second.client();
    const read = await collect(two.readStream("kept"));
    expect(read.map(({ event }) => Number(event?.revision))).to.deep.equal([2]);
    const retried = await two.appendToStream("kept", pair, { expectedRevision: "no_stream" });
    expect(retried.position).to.deep.equal(position);
    const next = await two.appendToStream("kept", event(3), { expectedRevision: 2n });
    expect(next.position!.commit > read[0]!.event!.position!.commit).to.equal(true);
    let refused = "";
    await two.appendToStream("closed", event(0)).catch((error: { type: string }) => {
      refused = error.type;
    });
    expect(refused).to.equal("stream-deleted");
    await two.dispose();
    await second.end();
  });
});
