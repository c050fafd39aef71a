import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import type { EventLog } from "../../../../shared/eventstore/log.ts";
import { connectToLog } from "../../../support/connections.ts";
import { createPlainLog } from "../../../support/plain-log.ts";
import { mountSmallDisk } from "../../../support/small-disk.ts";
import { getTestServers, makeTestRoot } from "../../../support/stack.ts";
import { runClinic } from "../terminal.ts";

type Line = Record<string, unknown>;

const toNdjson = (lines: (Line | string)[]) =>
  lines.map((line) => (typeof line === "string" ? line : JSON.stringify(line))).join("\n");

function createClinicLines(id: string): Line[] {
  const clinicFields = { slug: "import-vets", name: "Import Vets", locale: "fr-FR" };
  return [{ command: "clinic register", clinicId: id, ...clinicFields, timezone: "Europe/Paris", currency: "EUR" }];
}

function createCustomerLines(clinicId: string, count: number): Line[] {
  return Array.from({ length: count }, (_, index) => {
    const customerId = randomUUID();
    const animalFields = { animalId: randomUUID(), clinicId, customerId, name: "Rex", species: "dog" };
    return [
      { command: "customer register", customerId, clinicId, fullName: `Customer ${index}` },
      { command: "animal register", ...animalFields },
    ];
  }).flat();
}

/** Returns the stream of the object that the line registers. */
function toStream({ command, ...ids }: Line): string {
  const [noun] = String(command).split(" ");
  return `${noun}-${ids[`${noun}Id`]}`;
}

describe("an import", () => {
  let env: NodeJS.ProcessEnv;
  let log: EventLog;
  before(async () => {
    env = { EVENTSTORE_URL: (await getTestServers()).eventstoreUrl };
    log = createPlainLog(connectToLog(env.EVENTSTORE_URL ?? ""));
  });
  /** Runs an import after a dry run, and checks that the dry run has the same result. */
  async function runImport(lines: (Line | string)[], ...options: string[]) {
    const run = (...flags: string[]) => runClinic(["import", "-", "--json", ...flags], { env, stdin: toNdjson(lines) });
    const dryRun = await run("--dry-run");
    if (options.includes("--dry-run")) return dryRun;
    const result = await run(...options);
    const omitDuration = (tally: object) => ({ ...tally, dryRun: undefined, seconds: undefined });
    expect(parseFailures(dryRun)).to.deep.equal(parseFailures(result));
    expect(omitDuration(parseTally(dryRun))).to.deep.equal(omitDuration(parseTally(result)));
    return result;
  }
  const parseTally = (result: { outputLines: string[] }) => JSON.parse(result.outputLines.at(-1) ?? "");
  const parseFailures = (result: { outputLines: string[] }) =>
    result.outputLines
      .slice(0, -1)
      .map((line) => JSON.parse(line))
      .sort((a, b) => a.line - b.line);
  const readEventTypes = async (stream: string) => (await log.read(stream)).map(({ type }) => type);

  it("an import applies every line, and registers each owner before the owner's animal", async () => {
    const id = randomUUID();
    const lines = [...createClinicLines(id), "", ...createCustomerLines(id, 100)];
    const result = await runImport(lines);
    expect(result.code, result.errorLines.join("\n")).to.equal(0);
    const { seconds, ...totals } = parseTally(result);
    expect(totals).to.deep.equal({
      end: "complete",
      lines: 201,
      applied: 201,
      alreadyApplied: 0,
      invalid: 0,
      refused: 0,
      failed: 0,
      left: 0,
      dryRun: false,
    });
    expect(seconds).to.be.greaterThan(0);
    expect(result.errorLines.at(-1)).to.equal("import: 201 of 201 lines, 0 failed");
  });

  it("a second import changes nothing, even if some lines undo other lines or have no effect", async () => {
    const id = randomUUID();
    const [reinstateLine, suspendLine] = [
      { command: "clinic reinstate", clinicId: id },
      { command: "clinic suspend", clinicId: id, reason: "x" },
    ];
    const lines = [...createClinicLines(id), reinstateLine, suspendLine, reinstateLine, suspendLine];
    expect(parseTally(await runImport(lines))).to.include({ applied: 4, alreadyApplied: 1 });
    const expectedTypes = await readEventTypes(`clinic-${id}`);
    expect(expectedTypes).to.deep.equal(["ClinicRegistered", "ClinicSuspended", "ClinicReinstated", "ClinicSuspended"]);
    expect(parseTally(await runImport(lines))).to.include({ applied: 0, alreadyApplied: 5 });
    expect(await readEventTypes(`clinic-${id}`)).to.deep.equal(expectedTypes);
  });

  it("a second import changes nothing if a line far behind undoes an earlier line that had no effect", async () => {
    const id = randomUUID();
    const [reinstateLine, suspendLine] = [
      { command: "clinic reinstate", clinicId: id },
      { command: "clinic suspend", clinicId: id, reason: "x" },
    ];
    const lines = [...createClinicLines(id), reinstateLine, ...createCustomerLines(id, 200), suspendLine];
    expect(parseTally(await runImport(lines))).to.include({ applied: lines.length - 1, alreadyApplied: 1 });
    expect(parseTally(await runImport(lines))).to.include({ applied: 0, alreadyApplied: lines.length });
    expect(await readEventTypes(`clinic-${id}`)).to.deep.equal(["ClinicRegistered", "ClinicSuspended"]);
  });

  it("a second import applies only the lines that were added to the file", async () => {
    const id = randomUUID();
    const weighingFields = { command: "animal weigh", clinicId: id, weightKg: 3.5 };
    const lines = [...createClinicLines(id), ...createCustomerLines(id, 1)];
    const weighingLine = { ...weighingFields, animalId: lines.at(-1)?.animalId };
    await runImport([...lines, weighingLine]);
    const longerLines = [
      ...lines,
      weighingLine,
      { command: "branch open", branchId: randomUUID(), clinicId: id, name: "New" },
    ];
    expect(parseTally(await runImport([...longerLines, weighingLine]))).to.include({ applied: 2, alreadyApplied: 4 });
    const animalEventTypes = await readEventTypes(`animal-${weighingLine.animalId}`);
    expect(animalEventTypes).to.deep.equal(["AnimalRegistered", "AnimalWeighed", "AnimalWeighed"]);
  });

  it("a line that another file has already applied is applied again if the object has changed since", async () => {
    const [id, serviceId] = [randomUUID(), randomUUID()];
    const setPrice = (price: number) => ({ command: "service reprice", serviceId, clinicId: id, price });
    const readPrices = async () =>
      (await log.read(`service-${serviceId}`)).map(({ data }) => (data as { price: number }).price);
    await runImport([
      ...createClinicLines(id),
      { command: "service offer", serviceId, clinicId: id, name: "X", price: 1 },
    ]);
    for (const price of [11, 12, 11]) expect(parseTally(await runImport([setPrice(price)]))).to.include({ applied: 1 });
    expect(await readPrices()).to.deep.equal([1, 11, 12, 11]);
    expect(parseTally(await runImport([setPrice(11)]))).to.include({ alreadyApplied: 1 });
    expect(parseTally(await runImport([setPrice(11), setPrice(13)]))).to.include({ applied: 1, alreadyApplied: 1 });
    expect(parseTally(await runImport([setPrice(11), setPrice(13), setPrice(14)]))).to.include({
      alreadyApplied: 2,
      applied: 1,
    });
    expect(parseTally(await runImport([setPrice(13), setPrice(11)]))).to.include({ applied: 2 });
    expect(await readPrices()).to.deep.equal([1, 11, 12, 11, 13, 14, 13, 11]);
  });

  it("an import reports failed lines, skips lines that depend on a failed line, and applies all other lines", async () => {
    const id = randomUUID();
    const customer = randomUUID();
    const customerLine = { command: "customer register", customerId: customer, clinicId: id, fullName: "Ada" };
    const lines = [
      ...createClinicLines(id),
      customerLine,
      { ...customerLine, fullName: "Bo" },
      { command: "customer change", customerId: customer, clinicId: id, phone: "7" },
      { command: "customer register", clinicId: id, fullName: 7, colour: "red" },
      "nonsense",
      { command: "hospital open" },
      { command: "partner issue-credential", applicationId: id },
      { command: "branch open", branchId: randomUUID(), clinicId: id, name: "Main" },
    ];
    const result = await runClinic(["import", "-"], { env, stdin: toNdjson(lines) });
    expect(result.code).to.equal(3);
    expect(result.outputLines.join()).to.match(/^import: 9 lines: 3 applied, 0 already applied, 6 failed \(/);
    const problems = result.errorLines.filter((line) => line.startsWith("line ")).sort();
    expect(problems).to.deep.equal([
      "line 3: refused: $.customerId the id already belongs to another customer (customer_exists)",
      "line 4: refused: $.customerId line 3 about the same object failed (follows_failure)",
      "line 5: $.customerId is missing; $.fullName must be of type string; $.colour is not a known field",
      "line 6: is not valid JSON at column 1",
      'line 7: $.command "hospital open" cannot be imported; see `import --help`',
      'line 8: $.command "partner issue-credential" cannot be imported; see `import --help`',
    ]);
    expect(await readEventTypes(`customer-${customer}`)).to.deep.equal(["CustomerRegistered"]);
    expect((await runImport(["nonsense"])).code).to.equal(2);
  });

  it("an import skips a line that changes the same object as an earlier invalid line", async () => {
    const id = randomUUID();
    const customer = randomUUID();
    const customerLine = { command: "customer register", customerId: customer, clinicId: id, fullName: "Ada" };
    const installationFields = { applicationId: randomUUID(), clinicId: id };
    const lines = [
      ...createClinicLines(id),
      customerLine,
      { command: "customer change", customerId: customer, clinicId: id, fullName: 7 },
      { command: "customer change", customerId: customer, clinicId: id, fullName: "Bo" },
      { command: "installation request", ...installationFields, scopes: ["everything"] },
      { command: "installation revoke", ...installationFields, reason: null },
    ];
    const result = await runImport(lines);
    expect(result.code).to.equal(3);
    expect(parseFailures(result).map(({ line, code }) => [line, code])).to.deep.equal([
      [3, "invalid"],
      [4, "follows_failure"],
      [5, "invalid"],
      [6, "follows_failure"],
    ]);
    const repairedLines = lines.map((line, index) => (index === 2 ? { ...line, fullName: "Cleo" } : line));
    await runImport(repairedLines);
    const [, , lastEvent] = await log.read(`customer-${customer}`);
    expect(lastEvent?.data).to.include({ fullName: "Bo" });
  });

  it("a dry run of an import writes nothing, but reports the lines that a domain rule would refuse", async () => {
    const id = randomUUID();
    const strayLine = { ...createCustomerLines(id, 1)[1], customerId: randomUUID() };
    const result = await runImport([...createClinicLines(id), ...createCustomerLines(id, 5), strayLine], "--dry-run");
    expect(parseTally(result)).to.include({ applied: 11, refused: 1 });
    expect(parseFailures(result).map(({ code }) => code)).to.deep.equal(["customer_not_found"]);
    expect(await readEventTypes(`clinic-${id}`)).to.deep.equal([]);
  });

  it("a line that the event log cannot store fails alone, in a dry run and in the import", async () => {
    const [id, branch, resource] = [randomUUID(), randomUUID(), randomUUID()];
    const [clinicLine] = createClinicLines(id);
    const room = { command: "resource add", clinicId: id, branchId: branch, resourceType: "room", name: "Room" };
    const place = { clinicId: id, branchId: branch, resourceIds: [resource], status: "confirmed" };
    const lines = [
      clinicLine as Line,
      { command: "branch open", branchId: branch, clinicId: id, name: "Main" },
      { ...room, resourceId: resource },
      fillLine({ ...room, resourceId: randomUUID() }),
      { command: "appointment import", ...place, appointmentId: randomUUID(), scheduledAt: "9999-12-30T23:59:00Z" },
      { command: "appointment import", ...place, appointmentId: randomUUID(), scheduledAt: "9999-12-31T23:59:00Z" },
      { ...room, resourceId: randomUUID() },
    ];
    const result = await runImport(lines);
    expect(parseFailures(result).map(({ line, code }) => [line, code])).to.deep.equal([
      [4, "event_too_large"],
      [6, "invalid"],
    ]);
    expect(parseTally(result)).to.include({ applied: 5, refused: 1, invalid: 1, end: "complete" });
  });

  /** Extends a line to exactly 1 MiB. */
  function fillLine(line: Line): Line {
    const emptyLine = { ...line, metadata: { text: "" } };
    return { ...line, metadata: { text: "x".repeat(1_048_576 - JSON.stringify(emptyLine).length) } };
  }

  it("two imports of one file at the same time apply each line once", async () => {
    const clinicId = randomUUID();
    const lines = [...createClinicLines(clinicId), ...createCustomerLines(clinicId, 100)];
    const run = () => runClinic(["import", "-", "--json"], { env, stdin: toNdjson(lines) });
    const tallies = (await Promise.all([run(), run()])).map(parseTally);
    for (const tally of tallies) expect(tally).to.include({ end: "complete", failed: 0, left: 0 });
    expect(tallies.map(({ applied }) => applied).reduce((sum, count) => sum + count)).to.equal(lines.length);
    for (const stream of lines.map(toStream)) expect(await readEventTypes(stream), stream).to.have.length(1);
  });

  it("an import of a pipe applies its lines", async () => {
    const pipe = path.join(makeTestRoot(), "pipe");
    execFileSync("mkfifo", [pipe]);
    const written = fs.promises.writeFile(pipe, toNdjson(createClinicLines(randomUUID())));
    const result = await runClinic(["import", pipe, "--json"], { env });
    await written;
    expect(parseTally(result)).to.include({ end: "complete", lines: 1, applied: 1, left: 0 });
  });

  it("an import exits with 2 for a missing file, and with 4 if the event log is unavailable", async () => {
    const missingFileResult = await runClinic(["import", "/nonexistent.ndjson"], { env });
    expect(missingFileResult.code).to.equal(2);
    expect(missingFileResult.errorLines.join()).to.contain("/nonexistent.ndjson cannot be read");
    for (const name of ["/dev/null/lines.ndjson", "x".repeat(300)]) {
      const { code, errorLines } = await runClinic(["import", name], { env });
      expect([code, errorLines.length], errorLines.join()).to.deep.equal([2, 1]);
      expect(errorLines[0]).to.contain(`${name} cannot be read: E`);
    }
    const folderResult = await runClinic(["import", "/"], { env });
    expect([folderResult.code, folderResult.errorLines.length]).to.deep.equal([2, 1]);
    expect(folderResult.errorLines.join()).to.contain("/ cannot be read: EISDIR");
    const { TMPDIR: temporaryFolder = "/tmp" } = process.env;
    process.env.TMPDIR = "/nonexistent";
    const unwritableResult = await runClinic(["import", "-"], { env, stdin: "" });
    process.env.TMPDIR = temporaryFolder;
    expect(unwritableResult.code).to.equal(2);
    expect(unwritableResult.errorLines.join()).to.contain("set TMPDIR to a writable folder");
    const unreachableEnv = { EVENTSTORE_URL: "esdb://127.0.0.1:1?tls=false" };
    const stdin = toNdjson(createClinicLines(randomUUID()));
    const result = await runClinic(["import", "-", "--log-wait", "1"], { env: unreachableEnv, stdin });
    expect(result.code).to.equal(4);
    expect(result.errorLines).to.deep.equal([
      "import: the event log does not answer; retrying for up to 1 s",
      "import: stopped after 0 of 1 lines; run the same import again to continue",
      "clinic: the event log is unavailable; check EVENTSTORE_URL and try again",
    ]);
    expect(result.outputLines.join()).to.match(/^import: 1 line: 0 applied, 0 already applied, 0 failed, 1 left \(/);
  });

  it("an import exits with 2 if the disk for the copy of its input is full", async function () {
    const disk = mountSmallDisk(this, 1);
    const { TMPDIR: temporaryFolder = "/tmp" } = process.env;
    process.env.TMPDIR = disk.folder;
    try {
      const { code, errorLines } = await runClinic(["import", "-"], {
        env,
        stdin: Buffer.alloc(2 * 1024 * 1024, "\n"),
      });
      expect(code).to.equal(2);
      expect(errorLines.join()).to.contain("set TMPDIR to a writable folder").and.to.contain("ENOSPC");
    } finally {
      process.env.TMPDIR = temporaryFolder;
      disk.remove();
    }
  });

  it("control characters and line breaks of a file cannot reach the terminal", async () => {
    const line = '{"command": "customer register", "\\u001b[2J\\n\\u202e\\u009b": 1}';
    const { errorLines } = await runClinic(["import", "-"], { env, stdin: line });
    expect(errorLines[0]).to.contain("\\u001b[2J\\n\\u202e\\u009b");
    expect(errorLines.join("")).to.not.match(/[\p{Cc}\u202e]/u);
  });
});
