import { randomUUID } from "node:crypto";
import { expect } from "chai";
import pg from "pg";
import { appendBytes } from "../../../../command/cli/log-copy/raw-streams.ts";
import { createEventLog } from "../../../../shared/eventstore/log.ts";
import { createTestDataKeys, PERSONAL_DATA_KEYS } from "../../../support/data-keys.ts";
import { formerEvents } from "../../../support/former-events.ts";
import { createMigratedDatabase } from "../../../support/migrated-database.ts";
import type { TestDatabase } from "../../../support/stack.ts";
import { createStoredMetadata } from "../../../support/stored-metadata.ts";
import { runClinic } from "../terminal.ts";
import { startTestLog, type TestLog } from "./copied-logs.ts";

describe("an encrypting copy of an event log", () => {
  let source: TestLog;
  let target: TestLog;
  let database: TestDatabase;
  let pool: pg.Pool;

  before(async () => {
    [source, target] = [await startTestLog(), await startTestLog()];
    database = await createMigratedDatabase();
    pool = new pg.Pool({ connectionString: database.urls.command, max: 2 });
  });
  after(async () => {
    await Promise.all([source.stop(), target.stop(), pool.end()]);
    await database.drop();
  });

  const runCopy = (...options: string[]) =>
    runClinic(["log", "copy", "--encrypt", ...options], {
      env: {
        ...{ EVENTSTORE_URL: source.url, COPY_TARGET_URL: target.url },
        ...{ DATABASE_URL: database.urls.command, PERSONAL_DATA_KEYS },
      },
    });
  const append = (stream: string, type: string, data: string | object, metadata: string | object) =>
    appendBytes(source.client, stream, -1n, [
      {
        ...{ id: randomUUID(), type, contentType: "application/json" },
        data: Buffer.from(typeof data === "string" ? data : JSON.stringify(data)),
        metadata: Buffer.from(typeof metadata === "string" ? metadata : JSON.stringify(metadata)),
      },
    ]);

  it("the copy of plain events is encrypted, is continued with the same bytes, and reads like the source", async () => {
    for (const { stream, type, data, metadata } of formerEvents) await append(stream, type, data, metadata);
    const animalId = randomUUID();
    const ids = { animalId, clinicId: randomUUID(), customerId: "44444444-4444-4444-8444-444444444444" };
    const animal = { name: "Rex", species: "dog", breed: null, sex: null, birthDate: null, microchip: "705-1" };
    await append(`animal-${animalId}`, "AnimalRegistered", { ...ids, ...animal, weightKg: 4 }, createStoredMetadata());
    await append("note-1", "Noted", '{ "fullName": "Foreign Fiona" }', "{}");

    const first = await runCopy();
    expect(first.code, first.errorLines.join("\n")).to.equal(0);
    expect(first.outputLines.at(-1)).to.equal("log copy: the logs are equal");
    const copiedText = (await target.listEvents()).map(({ data }) => Buffer.from(data, "hex").toString()).join("\n");
    // Fixture data in a sandbox's reset is fictional.
    expect(copiedText.replace(/^.*"facts".*$/m, "")).not.to.match(/Ana Kos|ana@example|Rex|705-1|Limps|Check-up/);
    expect(copiedText).to.contain("Foreign Fiona");

    const dataKeys = createTestDataKeys(pool);
    const sourceLog = createEventLog(source.client, { dataKeys });
    const targetLog = createEventLog(target.client, { dataKeys });
    for (const stream of [...formerEvents.map(({ stream }) => stream), `animal-${animalId}`]) {
      const read = async (log: typeof sourceLog) => (await log.read(stream)).map(({ id, data }) => ({ id, data }));
      expect(await read(targetLog)).to.deep.equal(await read(sourceLog));
    }
    const person = { type: "customer", id: ids.customerId } as const;
    expect((await dataKeys.listOf(person)).map(({ category }) => category)).to.have.members(["contact", "animal"]);

    await append(`customer-${randomUUID()}`, "CustomerRegistered", formerEvents[2]!.data, createStoredMetadata());
    const second = await runCopy();
    expect(second.code, second.errorLines.join("\n")).to.equal(0);
    expect(second.outputLines[0]).to.equal("log copy: 1 events copied");
    expect((await runCopy("--verify-only")).code).to.equal(0);
  });
});
