import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { z } from "zod";
import { applyBatch } from "../../../projection/engine/apply-batch.ts";
import type { AnyReadModel, Row } from "../../../projection/engine/read-model.ts";
import { loadRows } from "../../../projection/engine/rows.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import { categories } from "../../../shared/domain/events/catalog.ts";
import type { Category } from "../../../shared/domain/events/category.ts";
import { deriveSandboxClinicId } from "../../../shared/domain/events/ids.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import { sandboxStreams } from "../../../shared/domain/events/sandbox.ts";
import { parseStoredEvent } from "../../../shared/domain/events/stored-event.ts";
import { BEFORE_FIRST_EVENT } from "../../../shared/eventstore/read-log.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { listExtremes } from "../../support/extreme-values.ts";
import { createDatabaseWithReadModels } from "../../support/migrated-database.ts";
import { createStoredMetadata, findStream } from "../../support/stored-metadata.ts";

interface ExtremeEvent {
  type: string;
  data: Record<string, unknown>;
  at: string;
}

describe("the limits of the event catalog", () => {
  it("the smallest and largest value of every field of every event fit every read model", async () => {
    const database = await createDatabaseWithReadModels();
    const pool = createPool({
      ...{ url: database.urls.projection, applicationName: "test", size: 1, statementTimeoutMs: 30_000 },
      logger: createLogger("test", "silent"),
    });
    const client = await pool.connect();
    const tables = { client, schema: READ_MODEL_SCHEMA, models: readModels };
    const load = async (model: AnyReadModel, event: RecordedEvent): Promise<Row | undefined> => {
      const key = model.key(event);
      return key && (await loadRows(tables, model, [key]))[0];
    };
    let position = BEFORE_FIRST_EVENT;
    /** Applies an event. Returns the columns whose stored value differs from the projector's result. */
    const apply = async ({ type, data, at }: ExtremeEvent): Promise<string[]> => {
      const event = createRecordedEvent({ type, data, at }, position + 1n);
      const models = readModels.filter(({ on }) => on[event.type]);
      const expectedRows: (Row | undefined)[] = [];
      const rowsByTable = new Map<string, { before: Row | undefined; after: Row | undefined }>();
      const findRows = ({ table }: { table: string }) => (rowsByTable.get(table) ?? {}) as never;
      for (const model of models) {
        const before = await load(model, event);
        const after = model.on[event.type]?.(before, event, findRows);
        rowsByTable.set(model.table, { before, after });
        expectedRows.push(after);
      }
      const newCheckpoint = { position: position + 1n, eventId: event.id };
      await applyBatch(tables, { events: [event], fromPosition: position, newCheckpoint });
      position += 1n;
      const storedRows = await Promise.all(models.map((model) => load(model, event)));
      // A request of another generation of a sandbox is ignored.
      if ("sandboxGeneration" in data && data.sandboxGeneration !== 0) return [];
      return models.flatMap((model, index) => listDifferences(model, expectedRows[index], storedRows[index]));
    };
    const problems: string[] = [];
    try {
      for (const event of listExtremeEvents()) {
        const differences = await apply(event).catch((error: Error) => [`${error.message} ${JSON.stringify(event)}`]);
        problems.push(...differences.map((difference) => `${event.type}: ${difference.slice(0, 400)}`));
      }
    } finally {
      client.release();
      await pool.end();
    }
    expect(problems.slice(0, 3)).to.deep.equal([]);
    expect(position > 400n, "events").to.equal(true);
  }).timeout(300_000);
});

function createRecordedEvent({ type, data, at }: ExtremeEvent, position: bigint): RecordedEvent {
  const event = { type, data: JSON.parse(JSON.stringify(data)) };
  const stream = findStream(event) ?? "";
  const metadata = { ...createStoredMetadata(event), occurredAt: at };
  const validEvent = parseStoredEvent({ ...event, streamId: stream, metadata });
  return { ...validEvent, id: randomUUID(), stream, revision: position, position };
}

/** Compares rows. Ignores personal columns, because an erasure may have overwritten them. */
function listDifferences({ table, columns, personalColumns }: AnyReadModel, expected?: Row, stored?: Row): string[] {
  if (!expected || !stored) return expected === stored ? [] : [`${table} has ${stored ? "a" : "no"} row`];
  const erasableNames = new Set(
    Object.values(personalColumns ?? {}).flatMap((neutralValues) => Object.keys(neutralValues)),
  );
  const toText = (value: unknown) => JSON.stringify(value ?? null, (_, member) => sortMembers(member));
  return Object.keys(columns).flatMap((name) => {
    const [expectedText, storedText] = [toText(expected[name]), toText(stored[name])];
    return erasableNames.has(name) || expectedText === storedText
      ? []
      : [`${table}.${name} is ${storedText.slice(0, 100)} instead of ${expectedText.slice(0, 100)}`];
  });
}

function sortMembers(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Lists events of every type. The events of a type cover the smallest and the largest value of each field. */
function listExtremeEvents(): ExtremeEvent[] {
  const events: ExtremeEvent[] = [];
  for (const category of categories as readonly Category[]) {
    for (const [type, schema] of Object.entries(category.events)) {
      const data =
        schema === sandboxStreams.events.SandboxReset ? listResets(events) : listExtremes(schema).map(placeInClinic);
      const times = listExtremes(z.object({ at: sandboxStreams.events.SandboxReset.shape.day }));
      expect(data, `extreme values of ${type}`).to.not.be.empty;
      for (const [index, value] of data.entries()) {
        const { at: day } = times[index % times.length] as { at: string };
        events.push({ type, data: value as Record<string, unknown>, at: `${day}T00:00:00.000Z` });
      }
    }
  }
  return events;
}

const CLINIC_ID = "11111111-1111-4111-8111-111111111111";

/** Sets the same clinic in all events of clinics, because an event cannot change a row of another clinic. */
function placeInClinic(value: unknown): unknown {
  const data = value as { clinicId?: string | null };
  if (typeof data.clinicId === "string") return { ...data, clinicId: CLINIC_ID };
  return data.clinicId === null ? replaceIds(data, "2") : data;
}

/**
 * Replaces the smallest and largest ids, so that the events have separate rows.
 *
 * @param digit first digit of the new ids
 */
function replaceIds<Data extends object>(data: Data, digit: string): Data {
  const text = JSON.stringify(data).replaceAll(/"[0f]{8}(-[0f]{4}){3}-[0f]{12}"/g, (id) => `"${digit}${id.slice(2)}`);
  return JSON.parse(text);
}

/** Lists SandboxReset events whose fixture contains every permitted event. */
function listResets(events: readonly ExtremeEvent[]): unknown[] {
  const { shape } = sandboxStreams.events.SandboxReset;
  const fixtureEvents = events.filter((event) => shape.events.safeParse([event]).success);
  expect(fixtureEvents).to.not.be.empty;
  return listExtremes(z.object({ ...shape, events: z.array(z.never()) })).map((value) => {
    const data = value as { applicationId: string };
    const clinicId = deriveSandboxClinicId(data.applicationId);
    const ownEvents = replaceIds(fixtureEvents, data.applicationId.startsWith("0") ? "3" : "4").map((event) =>
      "clinicId" in event.data ? { ...event, data: { ...event.data, clinicId } } : event,
    );
    return { ...data, clinicId, events: ownEvents };
  });
}
