import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Line } from "../../../../command/cli/import/import-lines.ts";
import { applyLines } from "../../../../command/cli/import/import-run.ts";
import { closeClinic } from "../../../../command/operations/clinic-operations.ts";
import { changeCustomer, weighAnimal } from "../../../../command/operations/people-operations.ts";
import { connectEventStore } from "../../../../shared/eventstore/connect.ts";
import { createEventLog, type EventLog } from "../../../../shared/eventstore/log.ts";
import { operatorContext } from "../../../support/partner.ts";
import { testServers } from "../../../support/stack.ts";

describe("the streams that an import keeps in memory", () => {
  let log: EventLog;
  let close: () => Promise<void>;
  before(async () => {
    const client = connectEventStore((await testServers()).eventstoreUrl, "test");
    log = createEventLog(client);
    close = () => client.dispose();
  });
  after(() => close());

  /** Applies lines, and runs the given work before each line with this number is read. Returns all read streams. */
  async function runImport(lines: object[], work: Record<number, () => Promise<unknown>> = {}) {
    const reads: string[] = [];
    const failures: string[] = [];
    const finished = { count: 0, notify: () => {} };
    const countingLog: EventLog = {
      ...log,
      read(stream, upTo) {
        reads.push(stream);
        return log.read(stream, upTo);
      },
    };
    async function* readLines(): AsyncGenerator<Line> {
      for (const [index, line] of lines.entries()) {
        const number = index + 1;
        if (work[number]) {
          while (finished.count < index) await new Promise<void>((resolve) => (finished.notify = resolve));
          await work[number]();
        }
        yield { number, text: JSON.stringify(line) };
      }
    }
    const { tally } = await applyLines(readLines(), {
      survey: { lines: lines.length, importId: randomUUID(), lineNumberById: new Map() },
      log: countingLog,
      baseContext: operatorContext(),
      report: {
        reportFailure: async ({ code }) => void failures.push(code),
        showProgress: () => {
          finished.count += 1;
          finished.notify();
        },
        writeNote: () => undefined,
        writeTotals: async () => undefined,
      },
      interruption: new AbortController().signal,
    });
    return { tally, failures, reads };
  }

  function createLines() {
    const [clinic, customer, animal] = [randomUUID(), randomUUID(), randomUUID()];
    const names = { slug: "a", name: "A", timezone: "Europe/Oslo", currency: "NOK", locale: "nb-NO" };
    const lines = [
      { command: "clinic register", id: clinic, ...names },
      { command: "customer register", id: customer, clinic, fullName: "Ada" },
      { command: "animal register", id: animal, clinic, customer, name: "Rex", species: "dog" },
      { command: "animal weigh", id: animal, clinic, weightKg: 4 },
    ];
    return { clinic, customer, animal, lines };
  }

  it("an import of new objects reads no stream", async () => {
    const { lines } = createLines();
    const { tally, reads } = await runImport(lines);
    expect(tally).to.include({ applied: 4, refused: 0 });
    expect(reads).to.deep.equal([]);
  });

  it("a line is applied after the events that another process appended to its stream", async () => {
    const { clinic, animal, lines } = createLines();
    const weighing = { clinicId: clinic, animalId: animal, weightKg: 3 };
    const { tally } = await runImport(lines, { 4: () => weighAnimal(log, weighing, operatorContext()) });
    expect(tally).to.include({ applied: 4 });
    const weights = (await log.read(`animal-${animal}`)).slice(1).map(({ data }) => (data as typeof weighing).weightKg);
    expect(weights).to.deep.equal([3, 4]);
  });

  it("a line that would change nothing in memory is decided with the stream in the event log", async () => {
    const { clinic, customer, lines } = createLines();
    const change = { command: "customer change", id: customer, clinic, phone: "1" };
    const phone = (value: string) => ({ clinicId: clinic, customerId: customer, details: { phone: value } });
    const again = { ...change, city: null };
    const { tally } = await runImport([...lines, change, again], {
      6: () => changeCustomer(log, phone("2"), operatorContext()),
    });
    expect(tally).to.include({ applied: 6 });
    const [last] = (await log.read(`customer-${customer}`)).slice(-1);
    expect(last?.data).to.include({ phone: "1" });
  });

  it("a line is not refused because of an object that another process has since created", async () => {
    const { customer, lines } = createLines();
    const [first, registration, animal] = lines as [object, object, object];
    const early = { ...animal, id: randomUUID() };
    const { tally, failures } = await runImport([first, early, animal], {
      3: () => runImport([registration]),
    });
    expect(failures).to.deep.equal(["customer_not_found"]);
    expect(tally).to.include({ applied: 2 });
    expect(await log.read(`customer-${customer}`)).to.have.length(1);
  });

  it("a line is refused if another process has closed the clinic more than a second ago", async () => {
    const { clinic, customer, lines } = createLines();
    const late = { command: "animal register", id: randomUUID(), clinic, customer, name: "Rex", species: "dog" };
    const { failures } = await runImport([...lines, late], {
      5: async () => {
        await closeClinic(log, { clinicId: clinic, reason: "Given up" }, operatorContext());
        const closedAt = performance.now();
        while (performance.now() - closedAt < 1_000) await log.read(`clinic-${clinic}`);
      },
    });
    expect(failures).to.deep.equal(["clinic_closed"]);
  });
});
