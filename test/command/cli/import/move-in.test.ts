import { randomUUID } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import type { RecordedEvent } from "../../../../shared/domain/events/recorded-event.ts";
import type { EventLog } from "../../../../shared/eventstore/log.ts";
import { connectToLog } from "../../../support/connections.ts";
import { createPlainLog } from "../../../support/plain-log.ts";
import { getTestServers } from "../../../support/stack.ts";
import { runClinic } from "../terminal.ts";

const EXAMPLE_FILE = path.join(import.meta.dirname, "../../../../command/cli/import/examples/move-in.ndjson");

describe("the import example", () => {
  let env: NodeJS.ProcessEnv;
  let log: EventLog;
  let fileText: string;
  let lines: Record<string, string>[];

  before(async () => {
    env = { EVENTSTORE_URL: (await getTestServers()).eventstoreUrl };
    log = createPlainLog(connectToLog(env.EVENTSTORE_URL ?? ""));
    // An earlier test may have imported the ids in the file, so this test replaces them with new ids.
    const idPrefix = randomUUID().slice(0, 23);
    fileText = fs.readFileSync(EXAMPLE_FILE, "utf8").replaceAll("3f1d2c4b-0a00-4000-8000", idPrefix);
    lines = fileText
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
  });
  const importFile = () => runClinic(["import", "-", "--json", "--actor", "ada"], { env, stdin: fileText });
  const getAppointmentLines = () => lines.filter(({ command }) => command === "appointment import");

  /** Reads all events of the streams that the import wrote, in line order. */
  async function readWrittenEvents(): Promise<RecordedEvent[]> {
    const streams = lines.map(({ command = "", clinicId, ...ids }) => {
      const noun = command.split(" ")[0];
      return noun === "branch" || noun === "clinic" ? `clinic-${clinicId}` : `${noun}-${ids[`${noun}Id`]}`;
    });
    return (await Promise.all([...new Set(streams)].map((stream) => log.read(stream)))).flat();
  }

  it("an import applies every line of the example file, and a second import changes nothing", async () => {
    const firstImport = await importFile();
    expect([firstImport.code, firstImport.outputLines.length], firstImport.outputLines.join("\n")).to.deep.equal([
      0, 1,
    ]);
    expect(JSON.parse(firstImport.outputLines[0] ?? "")).to.include({ applied: lines.length, failed: 0 });
    const events = await readWrittenEvents();
    const secondImport = await importFile();
    expect(secondImport.code).to.equal(0);
    expect(JSON.parse(secondImport.outputLines[0] ?? "")).to.include({ alreadyApplied: lines.length, applied: 0 });
    expect((await readWrittenEvents()).map(({ id }) => id)).to.deep.equal(events.map(({ id }) => id));
  });

  it("an import records the operator and the time at which each appointment reached its status", async () => {
    const events = (await readWrittenEvents()).filter(({ type }) => type === "AppointmentImported");
    expect(events.map(({ metadata }) => metadata.actor)).to.deep.equal(
      getAppointmentLines().map(() => ({ type: "operator", id: "ada" })),
    );
    expect(events.slice(0, 3).map(({ metadata }) => metadata.occurredAt)).to.deep.equal([
      "2024-03-04T08:25:00.000Z",
      "2024-03-11T09:30:00.000Z",
      "2024-03-15T07:00:00.000Z",
    ]);
  });
});
