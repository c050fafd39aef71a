import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import { setImmediate } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect } from "chai";
import { surveyLines } from "../../../../command/cli/import/import-command.ts";
import type { LineFailure } from "../../../../command/cli/import/import-line.ts";
import type { Line } from "../../../../command/cli/import/import-lines.ts";
import { applyLines } from "../../../../command/cli/import/import-run.ts";
import { createDryRunLog, createStreamCache } from "../../../../command/cli/import/line-log.ts";
import { toNewEvent } from "../../../../command/handling/handle.ts";
import { closeClinic } from "../../../../command/operations/clinic-operations.ts";
import { changeCustomer, weighAnimal } from "../../../../command/operations/customer-operations.ts";
import { recordErasure } from "../../../../command/operations/personal-data/record-erasure.ts";
import { EMPTY_STREAM, type EventLog, LogUnavailableError } from "../../../../shared/eventstore/log.ts";
import { connectToLog } from "../../../support/connections.ts";
import { createTestOperatorContext } from "../../../support/partner.ts";
import { createPlainLog } from "../../../support/plain-log.ts";
import { getTestServers } from "../../../support/stack.ts";

/** Applies lines with a report that discards everything. Options replace parts of the report. */
async function applyTestLines(
  lines: Line[],
  options: {
    log: EventLog;
    interruption?: AbortSignal;
    reportFailure?: (failure: LineFailure) => Promise<void>;
    showProgress?: () => void;
    beforeLine?: (number: number) => Promise<unknown>;
  },
) {
  const { log, interruption = new AbortController().signal } = options;
  const {
    reportFailure = async () => undefined,
    showProgress = () => undefined,
    beforeLine = async () => undefined,
  } = options;
  const report = { reportFailure, showProgress, writeNote: () => undefined, writeTotals: async () => undefined };
  async function* readLines() {
    for (const line of lines) {
      await beforeLine(line.number);
      yield line;
    }
  }
  const survey = await surveyLines(Readable.from(lines));
  return applyLines(readLines(), { survey, log, baseContext: createTestOperatorContext(), report, interruption });
}

const toLines = (lines: object[]): Line[] =>
  lines.map((line, index) => ({ number: index + 1, text: JSON.stringify(line) }));

const clinicFields = { slug: "a", name: "A", timezone: "Europe/Oslo", currency: "NOK", locale: "nb-NO" };

const emptyLog: EventLog = {
  read: async () => [],
  readLast: async () => undefined,
  append: () => Promise.reject(new Error("must not be written")),
};

describe("the streams that an import keeps in memory", () => {
  let log: EventLog;
  before(async () => {
    log = createPlainLog(connectToLog((await getTestServers()).eventstoreUrl));
  });
  /**
   * Applies lines. @returns the names of all read streams
   *
   * @param interruptions functions that run before a line is read, by line number
   */
  async function runImport(lines: object[], interruptions: Record<number, () => Promise<unknown>> = {}) {
    const readStreams: string[] = [];
    const failures: string[] = [];
    const progress = { count: 0, notify: () => {} };
    const countingLog: EventLog = {
      ...log,
      read(stream, lastRevision) {
        readStreams.push(stream);
        return log.read(stream, lastRevision);
      },
    };
    const beforeLine = async (number: number) => {
      if (!interruptions[number]) return;
      while (progress.count < number - 1) await new Promise<void>((resolve) => (progress.notify = resolve));
      await interruptions[number]();
    };
    const reportFailure = async ({ code }: { code: string }) => void failures.push(code);
    const showProgress = () => {
      progress.count += 1;
      progress.notify();
    };
    const { tally } = await applyTestLines(toLines(lines), {
      log: countingLog,
      reportFailure,
      showProgress,
      beforeLine,
    });
    return { tally, failures, readStreams };
  }

  function createLines() {
    const [clinic, customer, animal] = [randomUUID(), randomUUID(), randomUUID()];
    const lines = [
      { command: "clinic register", clinicId: clinic, ...clinicFields },
      { command: "customer register", customerId: customer, clinicId: clinic, fullName: "Ada" },
      {
        command: "animal register",
        animalId: animal,
        clinicId: clinic,
        customerId: customer,
        name: "Rex",
        species: "dog",
      },
      { command: "animal weigh", animalId: animal, clinicId: clinic, weightKg: 4 },
    ];
    return { clinic, customer, animal, lines };
  }

  async function waitASecond() {
    const startedAt = performance.now();
    while (performance.now() - startedAt < 1_000) await log.readLast("$clinic");
  }

  it("an import of new objects reads no stream", async () => {
    const { lines } = createLines();
    const { tally, readStreams } = await runImport(lines);
    expect(tally).to.include({ applied: 4, refused: 0 });
    expect(readStreams).to.deep.equal([]);
  });

  it("a line is applied after the events that another process appended to its stream", async () => {
    const { clinic, animal, lines } = createLines();
    const weighing = { clinicId: clinic, animalId: animal, weightKg: 3 };
    const { tally } = await runImport(lines, { 4: () => weighAnimal(log, weighing, createTestOperatorContext()) });
    expect(tally).to.include({ applied: 4 });
    const weights = (await log.read(`animal-${animal}`)).slice(1).map(({ data }) => (data as typeof weighing).weightKg);
    expect(weights).to.deep.equal([3, 4]);
  });

  it("a line that would change nothing in memory is decided with the stream in the event log", async () => {
    const { clinic, customer, lines } = createLines();
    const changeLine = { command: "customer change", customerId: customer, clinicId: clinic, phone: "1" };
    const createPhoneChange = (phone: string) => ({ clinicId: clinic, customerId: customer, phone });
    const secondChangeLine = { ...changeLine, city: null };
    const { tally } = await runImport([...lines, changeLine, secondChangeLine], {
      6: () => changeCustomer(log, createPhoneChange("2"), createTestOperatorContext()),
    });
    expect(tally).to.include({ applied: 6 });
    const [lastEvent] = (await log.read(`customer-${customer}`)).slice(-1);
    expect(lastEvent?.data).to.include({ phone: "1" });
  });

  it("a line is not refused because of an object that another process has since created", async () => {
    const { customer, lines } = createLines();
    const [clinicLine, customerLine, animalLine] = lines as [object, object, object];
    const earlyLine = { ...animalLine, animalId: randomUUID() };
    const { tally, failures } = await runImport([clinicLine, earlyLine, animalLine], {
      3: () => runImport([customerLine]),
    });
    expect(failures).to.deep.equal(["customer_not_found"]);
    expect(tally).to.include({ applied: 2 });
    expect(await log.read(`customer-${customer}`)).to.have.length(1);
  });

  type Ids = Record<"clinicId" | "customerId", string>;
  const changes: [change: string, code: string, apply: (ids: Ids) => Promise<unknown>][] = [
    [
      "closed the clinic",
      "clinic_closed",
      ({ clinicId }) => closeClinic(log, { clinicId, reason: "Given up" }, createTestOperatorContext()),
    ],
    [
      "erased the customer",
      "customer_erased",
      ({ clinicId, customerId: id }) => {
        const erasure = { categories: ["contact" as const, "animal" as const], cause: "request" as const, reason: "x" };
        return recordErasure.customer(log, { id, clinicId, ...erasure }, createTestOperatorContext());
      },
    ],
  ];
  for (const [change, code, apply] of changes)
    it(`a line is refused if another process has ${change} more than a second ago`, async () => {
      const { clinic: clinicId, customer: customerId, lines } = createLines();
      const ids = { animalId: randomUUID(), clinicId, customerId };
      const lateLine = { command: "animal register", ...ids, name: "Rex", species: "dog" };
      const { failures } = await runImport([...lines, lateLine], { 5: () => apply(ids).then(waitASecond) });
      expect(failures).to.deep.equal([code]);
    });

  it("streams that are used stay in memory, and streams that are not used are removed when memory is short", async () => {
    const cache = createStreamCache(createDryRunLog(emptyLog));
    const attributes = { text: "x".repeat(900_000) };
    const appendResource = async () => {
      const id = randomUUID();
      const ids = { resourceId: id, clinicId: id, branchId: id };
      const details = { resourceType: "room", name: "A", capacity: 1, timezone: "Europe/Oslo", metadata: attributes };
      const data = { ...ids, ...details };
      const event = toNewEvent({ type: "ResourceAdded", data }, { ...createTestOperatorContext(), clinicId: id });
      await cache.append(`resource-${id}`, EMPTY_STREAM, [event]);
      return `resource-${id}`;
    };
    const [usedStream, unusedStream] = [await appendResource(), await appendResource()];
    for (let count = 0; count < 45; count += 1) {
      const lastStream = await appendResource();
      expect(await cache.read(usedStream)).to.have.length(1);
      expect(cache.has(lastStream)).to.equal(true);
    }
    expect([cache.has(usedStream), cache.has(unusedStream)]).to.deep.equal([true, false]);
  });
});

describe("an import that the operator interrupts", () => {
  /**
   * Imports one line per function. When the import appends the events of a line, the log interrupts the import and then
   * calls the function.
   */
  async function runImport(...appendFunctions: (() => Promise<bigint>)[]) {
    const controller = new AbortController();
    const log: EventLog = {
      read: async () => [],
      readLast: async () => undefined,
      append: async () => {
        controller.abort();
        return (appendFunctions.shift() as () => Promise<bigint>)();
      },
    };
    const lines = appendFunctions.map(() => ({ command: "clinic register", clinicId: randomUUID(), ...clinicFields }));
    return applyTestLines(toLines(lines), { log, interruption: controller.signal });
  }

  const append = async () => 1n;

  it("an import that is interrupted during the last line ends as complete", async () => {
    const { end, tally } = await runImport(append);
    expect([end, tally.applied]).to.deep.equal(["complete", 1]);
  });

  it("an import that is interrupted while the event log is unavailable ends as interrupted", async () => {
    const { end } = await runImport(async () => {
      throw new LogUnavailableError("no answer");
    });
    expect(end).to.equal("interrupted");
  });
});

describe("an import without an event log", () => {
  it("an unexpected error of a line fails that line, and other lines are applied", async () => {
    const [brokenId, ...otherIds] = [randomUUID(), randomUUID(), randomUUID()];
    const failures: object[] = [];
    const log: EventLog = {
      ...emptyLog,
      append: async (stream) => {
        if (stream === `clinic-${brokenId}`) throw new TypeError("broken");
        return 1n;
      },
    };
    const lines = [brokenId, ...otherIds].map((id) => ({ command: "clinic register", clinicId: id, ...clinicFields }));
    const reportFailure = async (failure: object) => void failures.push(failure);
    const { end, tally } = await applyTestLines(toLines(lines), { log, reportFailure });
    expect(tally).to.deep.equal({ applied: 2, alreadyApplied: 0, invalid: 0, refused: 1 });
    expect(end).to.equal("complete");
    const problems = [{ field: "$", reason: "TypeError: broken" }];
    expect(failures).to.deep.equal([{ line: 1, code: "unexpected_error", problems }]);
  });

  setFlagsFromString("--expose-gc");
  const collectGarbage: () => void = runInNewContext("gc");
  const measureHeap = () => {
    collectGarbage();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return heapUsed + arrayBuffers;
  };

  it("an import keeps less than 200 bytes of memory for each line of its file", async () => {
    const lineCount = 100_000;
    const bytesBefore = measureHeap();
    const services = Array.from({ length: 1_000 }, () => ({ command: "service offer", serviceId: randomUUID() }));
    async function* generateLines(): AsyncGenerator<Line> {
      for (let number = 1; number <= lineCount; number += 1)
        yield { number, text: JSON.stringify({ ...services[number % services.length], name: `Service ${number}` }) };
    }
    const survey = await surveyLines(generateLines());
    expect((measureHeap() - bytesBefore) / lineCount).to.be.lessThan(200);
    expect([survey.lineCount, survey.lineNumberById.size]).to.deep.equal([lineCount, lineCount]);
  });

  it("a dry run keeps less than two kilobytes of memory for each line", async function () {
    this.timeout(300_000);
    const [firstLine, lastLine] = [30_000, 40_000];
    const clinic = randomUUID();
    const services = Array.from({ length: lastLine - 1 }, (_, index) => {
      const name = `Service ${index}`;
      return {
        command: "service offer",
        serviceId: randomUUID(),
        clinicId: clinic,
        name,
        category: "x".repeat(150),
        price: 1,
      };
    });
    const lines = toLines([{ command: "clinic register", clinicId: clinic, ...clinicFields }, ...services]);
    const byteCounts: number[] = [];
    const beforeLine = async (number: number) => {
      if (number !== firstLine && number !== lastLine) return;
      // No line is in progress, so a slow measurement delays none. The cache of streams is full at the first one.
      await setImmediate();
      byteCounts.push(measureHeap());
    };
    const { tally } = await applyTestLines(lines, { log: createDryRunLog(emptyLog), beforeLine });
    const [bytesBefore = 0, bytesAfter = 0] = byteCounts;
    expect(tally.applied).to.equal(lastLine);
    expect((bytesAfter - bytesBefore) / (lastLine - firstLine)).to.be.lessThan(2_000);
  });
});
