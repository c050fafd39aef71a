import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect } from "chai";
import { buildNodeCommand } from "../../../deploy/local/setup/project.ts";
import type { CostReport } from "./parser-cost.ts";

describe("hostile requests", () => {
  it("no request of the largest permitted size takes 20 ms of CPU time", async () => {
    const { command, args } = buildNodeCommand("test/shared/http/parser-cost.ts");
    const { stdout } = await promisify(execFile)(command, args, { maxBuffer: 2 ** 26 });
    const { counts, problems }: CostReport = JSON.parse(stdout);
    expect(problems).to.deep.equal([]);
    const headerNames = [
      ...["accept-encoding", "authorization", "content-encoding", "content-length", "content-type", "cookie", "host"],
      ...[
        "idempotency-key",
        "if-modified-since",
        "if-none-match",
        "traceparent",
        "transfer-encoding",
        "x-forwarded-for",
      ],
      ...["x-service-acting-member", "x-service-branch-id", "x-service-clinic-id", "x-service-log-position"],
    ];
    const places = ["query", "parameter", "path", "JSON", "form", ...headerNames.map((name) => `header ${name}`)];
    expect(counts.parameter, "requests with the parameters of all operations").to.be.above(2_000);
    expect(counts, "the places of hostile texts").to.have.all.keys(places);
  }).timeout(900_000);
});
