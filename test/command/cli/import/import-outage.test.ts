import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { text } from "node:stream/consumers";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import { buildNodeCommand } from "../../../../deploy/local/setup/project.ts";
import { connectToLog } from "../../../support/connections.ts";
import { getDataKeySettings } from "../../../support/data-keys.ts";
import { type GrpcProxy, type ProxiedCall, startGrpcProxy } from "../../../support/grpc-proxy.ts";
import { createPlainLog } from "../../../support/plain-log.ts";
import { getTestServers, makeTestRoot } from "../../../support/stack.ts";
import { runClinic } from "../terminal.ts";

const WEIGHING_COUNT = 40;
const LINE_COUNT = WEIGHING_COUNT + 3;
/** Number of appends before the log fails. */
const FAULT_AT = 20;
const clinicFields = { slug: "outage", name: "Outage", timezone: "Europe/Oslo", currency: "NOK", locale: "nb-NO" };
const isAppend = ({ path }: ProxiedCall) => !path.endsWith("/Read");

describe("an import while the event log is unavailable", () => {
  let client: EventStoreDBClient;
  let proxy: GrpcProxy;
  let env: Record<string, string>;
  let animalId: string;
  let file: string;

  before(async () => {
    client = connectToLog((await getTestServers()).eventstoreUrl);
  });
  beforeEach(async () => {
    proxy = await startGrpcProxy((await getTestServers()).eventstoreUrl);
    env = { ...(await getDataKeySettings()), EVENTSTORE_URL: proxy.url };
    animalId = randomUUID();
    const [clinicId, customerId] = [randomUUID(), randomUUID()];
    // Each weighing records an event, so a line that is applied twice is detected.
    const lines = [
      { command: "clinic register", clinicId, ...clinicFields },
      { command: "customer register", customerId, clinicId, fullName: "Ada" },
      { command: "animal register", animalId, clinicId, customerId, name: "Rex", species: "dog" },
      ...Array.from({ length: WEIGHING_COUNT }, (_, index) => ({
        ...{ command: "animal weigh", animalId, clinicId, weightKg: 1 + index / 100 },
      })),
    ];
    file = path.join(makeTestRoot(), "lines.ndjson");
    fs.writeFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  });

  /**
   * Makes calls fail after the first `FAULT_AT` appends.
   *
   * @param step "sent": the call does not reach the log. "answered": the call takes effect, but its response is lost
   * @param maxFailures number of calls that fail; default: all
   */
  function failCalls(step: "sent" | "answered" = "sent", maxFailures = Number.POSITIVE_INFINITY): void {
    let [appendCount, failureCount] = [0, 0];
    proxy.onStep = (currentStep, call) => {
      if (currentStep !== step) return;
      if (isAppend(call)) appendCount += 1;
      if (appendCount <= FAULT_AT || failureCount >= maxFailures) return;
      failureCount += 1;
      call.refuse(14);
    };
  }
  const runImport = (...options: string[]) => runClinic(["import", file, "--json", ...options], { env });
  const parseTotals = (lines: readonly string[]) => JSON.parse(lines.at(-1) ?? "");

  async function expectEachLineOnce(): Promise<void> {
    const weights = (await createPlainLog(client).read(`animal-${animalId}`)).slice(1).map(({ data }) => data);
    expect(weights).to.have.length(WEIGHING_COUNT);
    expect(new Set(weights.map((weight) => JSON.stringify(weight))).size).to.equal(WEIGHING_COUNT);
  }
  async function expectFinishedBySecondRun(): Promise<void> {
    proxy.onStep = () => undefined;
    const { code, outputLines, errorLines } = await runImport();
    expect(code, errorLines.join("\n")).to.equal(0);
    expect(parseTotals(outputLines)).to.include({ end: "complete", failed: 0, left: 0 });
    await expectEachLineOnce();
  }

  for (const [fault, step] of [
    ["refuses calls", "sent"],
    ["loses responses", "answered"],
  ] as const)
    it(`an import continues after the event log ${fault} for a while, and applies each line once`, async () => {
      failCalls(step, 8);
      const { code, outputLines, errorLines } = await runImport();
      expect(code, errorLines.join("\n")).to.equal(0);
      expect(errorLines).to.include("import: the event log does not answer; retrying for up to 300 s");
      expect(errorLines).to.include("import: the event log is available again");
      expect(parseTotals(outputLines)).to.include({ end: "complete", lines: LINE_COUNT, failed: 0, left: 0 });
      await expectEachLineOnce();
    });

  it("an import exits with 4 if the event log stays unavailable for too long, and a second run finishes the import", async () => {
    failCalls();
    const { code, outputLines, errorLines } = await runImport("--log-wait", "1");
    expect(code).to.equal(4);
    expect(errorLines.at(-1)).to.equal("clinic: the event log is unavailable; check EVENTSTORE_URL and try again");
    const totals = parseTotals(outputLines);
    expect(totals).to.include({ end: "failed", lines: LINE_COUNT, failed: 0, left: LINE_COUNT - totals.applied });
    expect(totals.applied).to.be.greaterThan(0);
    await expectFinishedBySecondRun();
  });

  for (const signal of ["SIGINT", "SIGTERM"] as const)
    it(`an import that waits for the event log stops on ${signal}, and a second run finishes the import`, async () => {
      failCalls();
      const { command, args } = buildNodeCommand("command/cli/main.ts", ["import", file, "--json"]);
      const child = spawn(command, args, { env: { ...process.env, ...env } });
      const outputPromise = text(child.stdout);
      let errorText = "";
      child.stderr.on("data", (chunk: Buffer) => {
        errorText += chunk;
        if (!child.killed && errorText.includes("does not answer")) child.kill(signal);
      });
      expect((await once(child, "close"))[0], errorText).to.equal(130);
      expect(errorText).to.include("import: finishing the lines in progress; press Ctrl-C again to stop immediately\n");
      expect(parseTotals((await outputPromise).trim().split("\n"))).to.include({ end: "interrupted", failed: 0 });
      await expectFinishedBySecondRun();
    });

  it("an interrupted import finishes the lines in progress and prints the totals as text", async () => {
    const controller = new AbortController();
    let callCount = 0;
    proxy.onStep = () => {
      callCount += 1;
      if (callCount === FAULT_AT) controller.abort();
    };
    const { code, outputLines, errorLines } = await runClinic(["import", file], { env, signal: controller.signal });
    expect(code).to.equal(130);
    expect(errorLines.at(-1)).to.match(
      /^import: stopped after \d+ of 43 lines; run the same import again to continue$/,
    );
    expect(outputLines).to.have.length(1);
    expect(outputLines[0]).to.match(
      /^import: 43 lines: \d+ applied, 0 already applied, 0 failed, \d+ left \(\d+\.\d s\)$/,
    );
  });

  it("a line whose append always fails is reported, and the other lines of the file are applied", async () => {
    const ids = [randomUUID(), randomUUID(), randomUUID()];
    const [brokenId = "", ...otherIds] = ids;
    // The server fails on this stream, and ends the call with the status UNKNOWN.
    proxy.onStep = (step, call, request) =>
      step === "sent" && request.includes(brokenId) && isAppend(call) && call.refuse(2);
    const lines = ids.map((id) => JSON.stringify({ command: "clinic register", clinicId: id, ...clinicFields }));
    const stdin = [...lines, ...lines.slice(0, 1)].join("\n");
    const { code, outputLines, errorLines } = await runClinic(["import", "-", "--json", "--log-wait", "1"], {
      ...{ env, stdin },
    });
    const [totals, ...failures] = outputLines.map((line) => JSON.parse(line)).reverse();
    expect(totals).to.include({ end: "complete", applied: 2, failed: 2, left: 0 });
    const reason = "StuckOperationError: the event log fails only for this object";
    expect(failures.reverse()).to.deep.equal([
      { line: 1, code: "unexpected_error", problems: [{ field: "$", reason }] },
      {
        line: 4,
        code: "follows_failure",
        problems: [{ field: "$.clinicId", reason: "line 1 about the same object failed" }],
      },
    ]);
    expect(code).to.equal(3);
    expect(errorLines.join("\n"), "no outage is reported").not.to.contain("answer");
    for (const id of otherIds) expect(await createPlainLog(client).read(`clinic-${id}`)).to.have.length(1);
  });
});
