import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Line } from "../../../../command/cli/import/import-lines.ts";
import { applyLines } from "../../../../command/cli/import/import-run.ts";
import { type EventLog, LogUnavailableError } from "../../../../shared/eventstore/log.ts";
import { createTestOperatorContext } from "../../../support/partner.ts";

describe("an import that the operator interrupts", () => {
  const clinicFields = { slug: "a", name: "A", timezone: "Europe/Oslo", currency: "NOK", locale: "nb-NO" };

  /**
   * Imports one line for each given function. The log's append method first interrupts the import, and then calls the
   * function of the line.
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
    const lines = appendFunctions.map((_, index): Line => {
      const line = { command: "clinic register", id: randomUUID(), ...clinicFields };
      return { number: index + 1, text: JSON.stringify(line) };
    });
    async function* readLines() {
      yield* lines;
    }
    const report = {
      reportFailure: async () => undefined,
      showProgress: () => undefined,
      writeNote: () => undefined,
      writeTotals: async () => undefined,
    };
    return applyLines(readLines(), {
      survey: { lineCount: lines.length, importId: randomUUID() },
      log,
      baseContext: createTestOperatorContext(),
      report,
      interruption: controller.signal,
    });
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

  it("an interrupted import ends as failed if a line in progress fails with an unexpected error", async () => {
    const brokenError = new Error("broken");
    const { end, error } = await runImport(async () => {
      throw brokenError;
    });
    expect([end, error]).to.deep.equal(["failed", brokenError]);
  });
});
