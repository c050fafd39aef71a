/**
 * Measures a rebuild of the read models: its speed, and the CPU time of this process and of Postgres. The reference is
 * the same client that reads the same log without processing the events. Then measures the time from an append until
 * the row is in the read model.
 *
 *     npm run bench -- rebuild
 */
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { excludeSystemEvents } from "@eventstore/db-client";
import { deriveDemoId } from "../../deploy/local/demo-data/steps.ts";
import { startProjectors } from "../../projection/engine/projectors.ts";
import { readInThread } from "../../projection/engine/read-log.ts";
import { rebuild } from "../../projection/engine/rebuild.ts";
import { ensureReadModels, migrate } from "../../projection/prepare-database.ts";
import { readModels } from "../../projection/read-models/all.ts";
import type { CatalogEvent } from "../../shared/domain/events/catalog.ts";
import type { EventMetadata } from "../../shared/domain/events/metadata.ts";
import { createEventLog, type EventLog } from "../../shared/eventstore/log.ts";
import { createUncachedDataKeys } from "../../shared/personal-data/create-data-keys.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { readConfig } from "../../shared/runtime/config.ts";
import { createLogger } from "../../shared/runtime/logger.ts";
import { animalRegistered, appointmentRequested, customerRegistered } from "../support/clinics.ts";
import { connectToLog, createTestPool } from "../support/connections.ts";
import { PERSONAL_DATA_KEYS } from "../support/data-keys.ts";
import { createTestDatabase, getTestServers, mochaGlobalTeardown } from "../support/stack.ts";
import { findQuantiles, listPids, measureWork } from "./load.ts";
import { printRow } from "./report.ts";

const EVENT_COUNT = 400_000;
const LIVE_EVENT_COUNT = 2_000;
const LIVE_EVENTS_PER_SECOND = 500;
const signal = new AbortController().signal;
const logger = createLogger("bench", "error");

const { eventstoreUrl, components } = await getTestServers();
const pids = listPids({ process, postgres: components.postgres });
const database = await createTestDatabase();
await migrate(database.urls.projection, logger);
const url = database.urls.projection;
const pool = createTestPool(url, { size: 6, statementTimeoutMs: 60_000, logger });
await ensureReadModels(pool, readModels);
const client = connectToLog(eventstoreUrl);
const dataKeys = createUncachedDataKeys(pool, readConfig(["PERSONAL_DATA_KEYS"], { PERSONAL_DATA_KEYS }));
const readLog = readInThread(eventstoreUrl);
const log = createEventLog(client, { dataKeys });
try {
  await generateEvents(log, EVENT_COUNT / 8);
  const readLoadBefore = await measureRead(readAllEvents);
  let peakBytes = 0;
  const memoryTimer = setInterval(() => {
    peakBytes = Math.max(peakBytes, process.memoryUsage.rss());
  }, 50);
  const rebuildLoad = await measureRead(() =>
    rebuild({ client, pool, dataKeys, readLog, models: readModels, logger, onProgress: () => undefined }, signal),
  );
  clearInterval(memoryTimer);
  const readLoadAfter = await measureRead(readAllEvents);
  printRow({
    name: "read only",
    rate: (readLoadBefore.rate + readLoadAfter.rate) / 2,
    cpuMicros: readLoadBefore.cpuMicros,
  });
  printRow({
    name: "rebuild",
    rate: rebuildLoad.rate,
    referenceRate: (readLoadBefore.rate + readLoadAfter.rate) / 2,
    cpuMicros: rebuildLoad.cpuMicros,
    note: `peak memory ${Math.round(peakBytes / 1_048_576)} MiB`,
  });
  await measureLiveLag();
} finally {
  await mochaGlobalTeardown();
}

/** Measures work that reads all events. @returns events per second, and CPU microseconds per event by process */
function measureRead(runOnce: () => Promise<unknown>) {
  return measureWork(pids, async () => {
    await runOnce();
    return EVENT_COUNT;
  });
}

async function readAllEvents(): Promise<void> {
  let eventCount = 0;
  const subscription = client.subscribeToAll({ filter: excludeSystemEvents() });
  for await (const _ of subscription) {
    eventCount += 1;
    if (eventCount === EVENT_COUNT) break;
  }
  await subscription.unsubscribe();
}

function createMetadata(number: number): EventMetadata {
  return {
    $correlationId: deriveDemoId("request", number),
    $causationId: deriveDemoId("request", number),
    actor: { type: "operator", id: "bench" },
    clinicId: deriveDemoId("clinic", number % 50),
    environment: "production",
    schemaVersion: 1,
    occurredAt: new Date(1_790_000_000_000 + number * 1_000).toISOString(),
  };
}

/** Creates eight events in three streams: of a customer, an animal and a completed appointment. */
function createFamilyEvents(index: number): [string, CatalogEvent[]][] {
  const [customerId, animalId, appointmentId] = [
    deriveDemoId("customer", index),
    deriveDemoId("animal", index),
    deriveDemoId("visit", index),
  ];
  const clinicId = deriveDemoId("clinic", index % 50);
  const details = { customerId, fullName: `Client ${index}`, phone: null, email: null, city: "Ljubljana" };
  const animal = { name: "Rex", species: "dog", breed: "Poodle", birthDate: "2020-02-29" };
  const scheduledAt = new Date(1_790_000_000_000 + index * 60_000).toISOString();
  const visit = { appointmentId, animalId, customerId, reason: "Check-up" };
  return [
    [
      `customer-${customerId}`,
      [
        customerRegistered(clinicId, customerId, { ...details, fullName: `Customer ${index}` }),
        { type: "CustomerDetailsChanged", data: details },
      ],
    ],
    [
      `animal-${animalId}`,
      [
        animalRegistered(clinicId, customerId, animalId, animal),
        { type: "AnimalWeighed", data: { animalId, weightKg: 12.5 } },
      ],
    ],
    [
      `appointment-${appointmentId}`,
      [
        appointmentRequested(clinicId, deriveDemoId("branch", index % 50), scheduledAt, visit),
        { type: "AppointmentConfirmed", data: { appointmentId } },
        { type: "AppointmentCheckedIn", data: { appointmentId } },
        { type: "AppointmentCompleted", data: { appointmentId } },
      ],
    ],
  ];
}

async function generateEvents(targetLog: EventLog, familyCount: number): Promise<void> {
  let nextNumber = 0;
  const appendFamilies = async () => {
    while (nextNumber < familyCount) {
      const number = nextNumber++;
      const metadata = createMetadata(number);
      const person = { type: "customer", id: deriveDemoId("customer", number) } as const;
      await Promise.all(
        createFamilyEvents(number).map(([stream, events]) =>
          targetLog.append(
            stream,
            -1n,
            events.map((event) => ({ id: randomUUID(), event, metadata, person })),
          ),
        ),
      );
    }
  };
  await Promise.all(Array.from({ length: 64 }, appendFamilies));
}

/** Appends events at a steady rate, and measures the time until their rows are in the read model. */
async function measureLiveLag(): Promise<void> {
  const projectors = startProjectors({ client, pool, dataKeys, databaseUrl: url, models: readModels, logger });
  while (projectors.getStatus().state !== "running") await delay(20);
  const lagsMs: number[] = [];
  const pendingAppends: Promise<void>[] = [];
  const startedAt = performance.now();
  for (let number = 0; number < LIVE_EVENT_COUNT; number += 1) {
    const dueAt = startedAt + (number * 1000) / LIVE_EVENTS_PER_SECOND;
    if (dueAt > performance.now()) await delay(dueAt - performance.now());
    pendingAppends.push(appendAndAwaitRow(number, lagsMs));
  }
  await Promise.all(pendingAppends);
  await projectors.stop();
  printRow({ name: `append to row, ${LIVE_EVENTS_PER_SECOND} events/s`, ...findQuantiles(lagsMs) });
}

/** Appends an event. For every twentieth event, waits for its row. More queries would distort the measurement. */
async function appendAndAwaitRow(number: number, lagsMs: number[]): Promise<void> {
  const customerId = randomUUID();
  const metadata = createMetadata(number);
  const event = customerRegistered(metadata.clinicId ?? "", customerId, { fullName: "Live" });
  const person = { type: "customer", id: customerId } as const;
  await log.append(`customer-${customerId}`, -1n, [{ id: randomUUID(), event, metadata, person }]);
  if (number % 20 !== 0) return;
  const appendedAt = performance.now();
  const query = {
    name: "see",
    text: `SELECT FROM ${READ_MODEL_SCHEMA}.customer WHERE customer_id = $1`,
    values: [customerId],
  };
  while ((await pool.query(query)).rowCount === 0) await delay(1);
  lagsMs.push(performance.now() - appendedAt);
}
