import { randomUUID } from "node:crypto";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { Readable } from "node:stream";
import { expect } from "chai";
import fc from "fast-check";
import { type Line, readLines } from "../../../../command/cli/import/import-lines.ts";
import { findJsonLoss } from "../../../../shared/domain/validation/json-loss.ts";
import { getTestServers, makeTestRoot } from "../../../support/stack.ts";
import { runClinic } from "../terminal.ts";

const BYTES_PER_MIB = 1024 * 1024;

describe("the lines of an import", () => {
  let env: NodeJS.ProcessEnv;
  const clinicId = randomUUID();
  const clinicFields = { slug: "lines", name: "Lines", timezone: "Europe/Oslo", currency: "NOK", locale: "nb-NO" };
  const registerLine = JSON.stringify({ command: "clinic register", clinicId, ...clinicFields });
  before(async () => {
    env = { EVENTSTORE_URL: (await getTestServers()).eventstoreUrl };
  });

  const importLines = async (stdin: string | Buffer | Readable) => {
    const { code, outputLines: out, errorLines: err } = await runClinic(["import", "-", "--json"], { env, stdin });
    const failures = out.slice(0, -1).map((line) => JSON.parse(line));
    return { code, failures, totals: JSON.parse(out.at(-1) ?? "null"), err };
  };
  const formatCustomer = (moreFields: string) =>
    `{"command": "customer register", "customerId": "${randomUUID()}", "clinicId": "${clinicId}", ${moreFields}}`;
  const formatValidLine = () => formatCustomer('"fullName": "Ada"');
  const formatProblems = ({ failures }: Awaited<ReturnType<typeof importLines>>) =>
    failures
      .sort((a, b) => a.line - b.line)
      .map(({ line, problems }) => [line, ...problems.map((problem: Problem) => `${problem.field} ${problem.reason}`)]);
  interface Problem {
    field: string;
    reason: string;
  }

  /** Imports an invalid line between valid lines and returns the reported problem. */
  async function importInvalidLine(invalidLine: string | Buffer): Promise<string> {
    const lines = [registerLine, formatValidLine(), invalidLine, formatValidLine()].map((line) => Buffer.from(line));
    const result = await importLines(Buffer.concat(lines.flatMap((line) => [line, Buffer.from("\n")])));
    expect(result.code).to.equal(2);
    expect(result.totals).to.include({ end: "complete", lines: 4, failed: 1, invalid: 1, left: 0 });
    const [[line, problem] = []] = formatProblems(result);
    expect(line).to.equal(3);
    return String(problem);
  }

  const nest = (levels: number, opening: string, closing: string) => opening.repeat(levels) + closing.repeat(levels);
  for (const levels of [101, 5_000, 200_000]) {
    const formatResource = (metadata: string) =>
      `{"command": "resource add", "resourceId": "${randomUUID()}", "clinicId": "${clinicId}", "branchId": "${randomUUID()}", "resourceType": "room", "name": "Room", "metadata": {"a": ${metadata}}}`;

    it(`an import reports a field with ${levels} levels of nested arrays, and continues`, async () => {
      expect(await importInvalidLine(formatResource(nest(levels, "[", "]")))).to.equal(
        "$.metadata must not be nested more than 100 levels deep",
      );
      expect(await importInvalidLine(formatCustomer(`"fullName": ${nest(levels, "[", "]")}`))).to.equal(
        "$.fullName must be of type string",
      );
      expect(await importInvalidLine(formatCustomer(`"fullName": "Ada", "more": ${nest(levels, "[", "]")}`))).to.equal(
        "$.more is not a known field",
      );
      expect(await importInvalidLine(nest(levels, "[", "]"))).to.equal("$ is not a JSON object");
    });

    it(`an import reports a field with ${levels} levels of nested objects`, async () => {
      const nestedObject = nest(Math.min(levels, 150_000), '{"a":', "}").replace(":}", ":1}");
      expect(await importInvalidLine(formatResource(nestedObject))).to.equal(
        "$.metadata must not be nested more than 100 levels deep",
      );
      expect(await importInvalidLine(nestedObject)).to.equal("$.command is missing");
    });
  }

  it("an import refuses lines with a million nested levels as too large", async () => {
    expect(await importInvalidLine(nest(1_000_000, "[", "]"))).to.equal("$ is longer than 1 MiB");
    expect(await importInvalidLine(nest(1_000_000, '{"a":', "}"))).to.equal("$ is longer than 1 MiB");
  });

  it("an import refuses a line of 100 MB as too large, and uses a limited amount of memory", async () => {
    const file = path.join(makeTestRoot(), "long.ndjson");
    const stream = fs.createWriteStream(file);
    stream.write(`${registerLine}\n`);
    for (let writtenMib = 0; writtenMib < 100; writtenMib += 1)
      if (!stream.write("x".repeat(BYTES_PER_MIB))) await once(stream, "drain");
    stream.end(`\n${formatValidLine()}\n`);
    await once(stream, "close");
    const bytesBefore = process.memoryUsage().rss;
    const result = await runClinic(["import", file, "--json"], { env });
    const grownBytes = process.memoryUsage().rss - bytesBefore;
    const [failure, totals] = result.outputLines.map((line) => JSON.parse(line));
    expect(failure).to.include({ line: 2, code: "invalid" });
    expect(failure.problems).to.deep.equal([{ field: "$", reason: "is longer than 1 MiB" }]);
    expect(totals).to.include({ lines: 3, failed: 1 });
    expect(grownBytes / BYTES_PER_MIB).to.be.lessThan(80);
  });

  it("an import reports lines that are not UTF-8, contain NUL or are not JSON", async () => {
    const latin1Line = Buffer.from(formatCustomer('"fullName": "Zoë"'), "latin1");
    expect(await importInvalidLine(latin1Line)).to.equal("$ is not valid UTF-8");
    expect(await importInvalidLine(formatCustomer('"fullName": "A\0da"'))).to.equal("$ contains a NUL character");
    expect(await importInvalidLine(formatCustomer('"fullName": "A\\u0000da"'))).to.equal(
      "$.fullName must not contain NUL or lone surrogates",
    );
    const validLine = formatValidLine();
    expect(await importInvalidLine(validLine.slice(0, -1))).to.equal(
      `$ is not valid JSON at column ${validLine.length}`,
    );
    expect(await importInvalidLine(`\uFEFF${validLine}`)).to.equal("$ is not valid JSON at column 1");
    expect(await importInvalidLine('{"command": 7}')).to.equal(
      "$.command is not a string and cannot be imported; see `import --help`",
    );
    expect(await importInvalidLine(formatCustomer('"fullName": "Ada", "a b": 1'))).to.equal(
      '$["a b"] is not a known field',
    );
  });

  it("an import reports a number that would change if it were stored", async () => {
    for (const number of ["12345678901234567890", "1e400", "-1e-400", "0.10000000000000000555", "9".repeat(500_000)])
      expect(
        await importInvalidLine(formatCustomer(`"fullName": "1e400\\\\", "more": {"a": [1, ${number}]}`)),
      ).to.equal(`$ contains the number ${number.slice(0, 60)}, which cannot be stored exactly`);
  });

  it("an import reports a key that an object contains twice, and continues", async () => {
    const sameKey = '"fullName": "Ada", "note": "\\"fullName\\": {", "full\\u004eame": "Eve"';
    expect(await importInvalidLine(formatCustomer(sameKey))).to.equal(
      '$ contains "fullName" more than once in one object',
    );
    const repeatedKeys = [
      '{"a": [{"b": 1}, {"b": 2}], "c": {"a": "b"}, "b": "a"}',
      '{"a": {}, "b": {"c": 1, "d": {"c": 2}}}',
    ];
    for (const json of repeatedKeys) expect(findJsonLoss(json), json).to.equal(undefined);
    expect(findJsonLoss('[{"a": {"b": 1, "b": 2}}]')).to.deep.equal({ repeatedName: "b" });
  });

  it("numbers are inexact exactly if reading and writing them changes the value", () => {
    const exactNumbers = [
      "0",
      "-0.0e9",
      "1.0",
      "100e-2",
      "12345678901234567e3",
      "1e308",
      "5e-324",
      "0.1",
      "9007199254740992e1",
    ];
    for (const number of exactNumbers) expect(findJsonLoss(`[${number}]`), number).to.equal(undefined);
    for (const number of ["9007199254740993", "1.00000000000000000001", "1e309", "1e-325"])
      expect(findJsonLoss(`{"1e400": "\\"1e400", "a": ${number}}`)).to.deep.equal({ number });
    fc.assert(
      fc.property(fc.jsonValue(), fc.double({ noNaN: true, noDefaultInfinity: true }), (value, number) => {
        expect(findJsonLoss(JSON.stringify([value, number]))).to.equal(undefined);
      }),
    );
    expect(findJsonLoss(`"${"\\\\".repeat(500_000)}"`)).to.equal(undefined);
  });

  it("an import accepts a byte order mark, CRLF, and a last line without a line ending", async () => {
    const result = await importLines(`\uFEFF${registerLine}\r\n\r\n${formatValidLine()}\r\n  \n${formatValidLine()}`);
    expect(result.failures).to.deep.equal([]);
    expect(result.totals).to.include({ lines: 3, failed: 0 });
    expect(result.code).to.equal(0);
  });

  it("an import of an empty file succeeds", async () => {
    for (const content of ["", "\n", "\uFEFF", "\r\n \n"]) {
      const result = await importLines(content);
      expect([result.code, result.err], JSON.stringify(content)).to.deep.equal([0, []]);
      expect(result.totals).to.include({ end: "complete", lines: 0, left: 0 });
    }
  });

  it("an input is divided into the same lines for every chunk size", async () => {
    const bytes = Buffer.from(`\uFEFFfirst 🐾\r\n\n${"é".repeat(300)}\nlast`);
    const readInChunks = async (size: number) => {
      const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
        bytes.subarray(index * size, (index + 1) * size),
      );
      const lines: Line[] = [];
      const input = { name: "test", open: () => Readable.from(chunks) };
      for await (const line of readLines(input)) lines.push(line);
      return lines;
    };
    const wholeLines = await readInChunks(bytes.length);
    expect(wholeLines.map(({ number }) => number)).to.deep.equal([1, 3, 4]);
    expect(wholeLines[0]).to.deep.include({ text: "first 🐾\r" });
    for (const size of [1, 2, 3, 7, 64]) expect(await readInChunks(size)).to.deep.equal(wholeLines);
  });

  it("an import lists all 20,000 invalid lines of a file, each with line number, field and reason", async () => {
    const count = 20_000;
    const badLine = '{"command": "customer register", "fullName": 7}\n';
    const result = await importLines(`${registerLine}\n${badLine.repeat(count)}`);
    expect(result.code).to.equal(2);
    expect(result.failures).to.have.length(count);
    result.failures.forEach((failure, index) => {
      expect(failure.line).to.equal(index + 2);
      expect(failure).to.deep.equal({
        line: index + 2,
        code: "invalid",
        problems: [
          { field: "$.customerId", reason: "is missing" },
          { field: "$.clinicId", reason: "is missing" },
          { field: "$.fullName", reason: "must be of type string" },
        ],
      });
    });
    expect(result.totals).to.include({ lines: count + 1, invalid: count, failed: count, left: 0 });
    expect(result.err.filter((line) => line.startsWith("line "))).to.deep.equal([]);
  });

  it("if a domain rule refuses a line, the import reports which field of the line was refused", async () => {
    const past = { scheduledAt: "2020-01-01T00:00:00Z" };
    const imported = { ...past, status: "confirmed", resourceIds: [randomUUID(), randomUUID()] };
    const importedFields = "branchId resourceIds[0] resourceIds[1] status";
    const [endsAt, startsAt] = ["2097-01-01T09:00:00Z", "2097-01-01T10:00:00Z"];
    const room = { resourceType: "room", name: "Room" };
    const cat = { name: "A", species: "cat" };
    const requested = "branchId animalId scheduledAt";
    /** Command, id fields that get new ids, other fields, expected error code, and the fields that the error names. */
    const cases: [string, string, object, string, string][] = [
      ["animal register", "animalId customerId", cat, "customer_not_found", "customerId"],
      ["appointment request", "appointmentId branchId animalId", past, "validation_failed", requested],
      ["appointment import", "appointmentId branchId", imported, "validation_failed", importedFields],
      ["appointment confirm", "appointmentId", {}, "appointment_not_found", "appointmentId"],
      ["resource add", "resourceId branchId", room, "branch_not_found", "branchId"],
      ["customer register", "customerId clinicId", { fullName: "A" }, "clinic_not_found", "clinicId"],
      ["clinic suspend", "clinicId", { reason: "x" }, "clinic_not_found", "clinicId"],
      ["installation request", "applicationId", {}, "application_not_found", "applicationId"],
      ["hold place", "holdId branchId", { startsAt, endsAt, expiresAt: endsAt }, "branch_not_found", "branchId"],
    ];
    const lines = cases.map(([command, names, fields]) => {
      const ids = Object.fromEntries(names.split(" ").map((name) => [name, randomUUID()]));
      return { command, clinicId, ...fields, ...ids };
    });
    const result = await importLines([registerLine, ...lines.map((line) => JSON.stringify(line))].join("\n"));
    expect(result.code).to.equal(3);
    const problems = result.failures
      .sort((a, b) => a.line - b.line)
      .map(({ code, problems }) => [code, problems.map(({ field }: Problem) => field)]);
    expect(problems).to.deep.equal(
      cases.map(([, , , code, fields]) => [code, fields.split(" ").map((field) => `$.${field}`)]),
    );
  });
});
