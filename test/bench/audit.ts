/**
 * Measures how fast the audit index is built, and how fast the audit service answers questions about one clinic. This
 * clinic has 2 % of the events.
 *
 *     npm run bench -- audit
 *     AUDIT_BENCH_EVENTS=5000000 AUDIT_BENCH_LOG=/var/tmp/audit-bench npm run bench -- audit
 *
 * Filling the log takes minutes. To keep the log for later runs, set AUDIT_BENCH_LOG to a folder.
 */
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { accessesQuery } from "../../command/audit/access/list-accesses.ts";
import { clinicStateQuery } from "../../command/audit/clinic/clinic-state.ts";
import { readersQuery } from "../../command/audit/clinic/list-readers.ts";
import { exportClinic } from "../../command/audit/export/export-clinic.ts";
import { createAuditSigner } from "../../command/audit/export/signing.ts";
import { AuditIndex } from "../../command/audit/index/audit-index.ts";
import { readIndexCheckpoint } from "../../command/audit/index/index-store.ts";
import { runIndex } from "../../command/audit/index/run-index.ts";
import { eventsQuery } from "../../command/audit/queries/list-events.ts";
import { appendEventsInSharedCall } from "../../shared/eventstore/append.ts";
import { readLogEnd } from "../../shared/eventstore/read-log.ts";
import { readConfig } from "../../shared/runtime/config.ts";
import { createLogger } from "../../shared/runtime/logger.ts";
import { createSigningKeys } from "../command/audit/world.ts";
import { LogProcess } from "../deploy/eventstore/log-process.ts";
import { createTestPool } from "../support/connections.ts";
import { sharedDataKeys } from "../support/data-keys.ts";
import { eventually } from "../support/eventually.ts";
import { createMigratedDatabase } from "../support/migrated-database.ts";
import { mochaGlobalTeardown } from "../support/stack.ts";
import { findQuantiles } from "./load.ts";
import { measurePostgres, readCpuMs } from "./measure-postgres.ts";
import { printRow } from "./report.ts";

const EVENT_COUNT = Number(process.env.AUDIT_BENCH_EVENTS ?? 500_000);
const CLINIC_SHARE = 50;
const APPOINTMENT_TYPES = [
  "AppointmentRequested",
  "AppointmentConfirmed",
  "AppointmentCheckedIn",
  "AppointmentCompleted",
];
const ANIMALS_PER_CLINIC = 500;
const ACCESS_INTERVAL = 200;
const QUESTION_COUNT = 100;

interface Subjects {
  clinicId: string;
  applicationId: string;
  auditorId: string;
  animalIds: string[];
  customerIds: string[];
  appointmentIds: string[];
  correlationIds: string[];
}

const folder = process.env.AUDIT_BENCH_LOG ?? mkdtempSync(join(tmpdir(), "audit-bench-"));
mkdirSync(folder, { recursive: true });

/** Appends the events of 50 clinics. @returns ids in the first clinic, which the questions use */
async function fillLog(client: EventStoreDBClient): Promise<Subjects> {
  const clinics = Array.from({ length: CLINIC_SHARE }, () => ({
    clinicId: randomUUID(),
    animals: Array.from({ length: ANIMALS_PER_CLINIC }, () => ({ animalId: randomUUID(), customerId: randomUUID() })),
  }));
  const measured = clinics[0]!;
  const [applicationId, auditorId] = [randomUUID(), randomUUID()];
  const [branchId, serviceId, resourceId] = Array.from({ length: 3 }, () => randomUUID());
  const subjects: Subjects = {
    clinicId: measured.clinicId,
    applicationId,
    auditorId,
    animalIds: measured.animals.map(({ animalId }) => animalId),
    customerIds: measured.animals.map(({ customerId }) => customerId),
    appointmentIds: [],
    correlationIds: [],
  };
  const createMetadata = (clinicId: string | null, actor = { type: "operator", id: "ada" }) => {
    const correlationId = randomUUID();
    const ids = { $correlationId: correlationId, $causationId: correlationId, clinicId };
    return { ...ids, environment: "production", schemaVersion: 1, actor, occurredAt: new Date().toISOString() };
  };
  const append = (stream: string, events: readonly { type: string; data: object; metadata: object }[]) => {
    const toBytes = (value: object) => Buffer.from(JSON.stringify(value));
    const stored = events.map(({ type, data, metadata }) => ({
      ...{ id: randomUUID(), type, contentType: "application/json" },
      ...{ data: toBytes(data), metadata: toBytes(metadata) },
    }));
    return appendEventsInSharedCall(client, stream, -1n, stored, 60_000);
  };
  for (const { clinicId, animals } of clinics) {
    const register = (stream: string, type: string, data: object) =>
      append(stream, [{ type, data, metadata: createMetadata(clinicId) }]);
    await register(`clinic-${clinicId}`, "ClinicRegistered", {
      ...{ clinicId, environment: "production", slug: clinicId, name: "Lindenhof", timezone: "Europe/Zurich" },
      ...{ currency: "CHF", locale: "de-CH", city: null, isDemo: false, demoExpiresAt: null },
    });
    await Promise.all(
      animals.map(({ animalId, customerId }) =>
        register(`animal-${animalId}`, "AnimalRegistered", { animalId, customerId, clinicId }),
      ),
    );
  }
  let appended = CLINIC_SHARE * ANIMALS_PER_CLINIC;
  let startedCount = 0;
  const appendNext = async () => {
    while (appended < EVENT_COUNT) {
      startedCount += 1;
      const number = startedCount;
      appended += APPOINTMENT_TYPES.length;
      const { clinicId, animals } = clinics[number % CLINIC_SHARE]!;
      const { animalId, customerId } = animals[Math.floor(number / CLINIC_SHARE) % ANIMALS_PER_CLINIC]!;
      const appointmentId = randomUUID();
      const events = APPOINTMENT_TYPES.map((type, revision) => {
        const metadata = createMetadata(clinicId);
        if (clinicId === subjects.clinicId && subjects.correlationIds.length < QUESTION_COUNT)
          subjects.correlationIds.push(metadata.$correlationId);
        const details = { branchId, animalId, customerId, serviceId, resourceId, applicationId };
        const times = { scheduledAt: "2026-05-06T10:00:00.000Z", durationMinutes: 30, reason: "Vaccination" };
        const data = revision === 0 ? { appointmentId, clinicId, ...details, ...times } : { appointmentId };
        return { type, data, metadata };
      });
      if (clinicId === subjects.clinicId && subjects.appointmentIds.length < QUESTION_COUNT)
        subjects.appointmentIds.push(appointmentId);
      await append(`appointment-${appointmentId}`, events);
      if (number % ACCESS_INTERVAL !== 0) continue;
      const accessId = randomUUID();
      const asked = number % (2 * ACCESS_INTERVAL) === 0 ? { clinic: clinicId } : { animal: animalId };
      const data = { accessId, auditorId, action: "events", asked, found: [], clinicIds: [clinicId] };
      const metadata = createMetadata(null, { type: "auditor", id: auditorId });
      await append(`auditAccess-${accessId}`, [{ type: "AuditAccessed", data, metadata }]);
    }
  };
  await Promise.all(Array.from({ length: 256 }, appendNext));
  return subjects;
}

const log = await LogProcess.start(join(folder, "log"));
const client = log.createClient();
try {
  const subjectsFile = join(folder, "subjects.json");
  if (!existsSync(subjectsFile)) {
    const startedAt = performance.now();
    const filled = await fillLog(client);
    printRow({
      name: "audit: fill of the log",
      rate: (EVENT_COUNT * 1_000) / (performance.now() - startedAt),
      isDetail: true,
    });
    writeFileSync(subjectsFile, JSON.stringify(filled));
  }
  const subjects: Subjects = JSON.parse(readFileSync(subjectsFile, "utf8"));
  const database = await createMigratedDatabase();
  const logger = createLogger("bench", "silent");
  const poolOptions = { statementTimeoutMs: 60_000, shouldPreferIndexes: true };
  const pool = createTestPool(database.urls.audit, poolOptions);
  const owner = createTestPool(database.urls.projection, poolOptions);
  const controller = new AbortController();
  let isRunning = Promise.resolve();

  const logCpuBefore = readCpuMs(log.pid);
  const cpuBefore = process.cpuUsage();
  const startedAt = performance.now();
  const use = await measurePostgres(owner, async () => {
    isRunning = runIndex({ client, pool, databaseUrl: database.urls.audit, logger }, controller.signal);
    const logEnd = await readLogEnd(client);
    await eventually(
      "the index is filled",
      async () => (await readIndexCheckpoint(pool)).position >= logEnd,
      3_600_000,
    );
  });
  const seconds = (performance.now() - startedAt) / 1_000;
  const { user, system } = process.cpuUsage(cpuBefore);
  const { rows } = await owner.query<{ count: number; bytes: number }>(
    `SELECT (SELECT count(*)::float8 FROM audit.event) AS count,
            (SELECT sum(pg_total_relation_size(oid))::float8 FROM pg_class
              WHERE relnamespace = 'audit'::regnamespace AND relkind = 'r') AS bytes`,
  );
  const { count, bytes } = rows[0]!;
  printRow({
    name: `audit: fill of the index, ${count} events`,
    rate: count / seconds,
    cpuMicros: {
      audit: (user + system) / count,
      postgres: (use.cpuMs * 1_000) / count,
      log: ((readCpuMs(log.pid) - logCpuBefore) * 1_000) / count,
    },
    note: `${Math.round(bytes / count)} bytes for each event`,
  });

  const index = new AuditIndex(() => pool);
  const options = { client, index, dataKeys: sharedDataKeys, permittedClinicIds: null, signal: controller.signal };
  const measure = async (name: string, ask: (number: number) => Promise<unknown>) => {
    const times: number[] = [];
    for (let number = 0; number < QUESTION_COUNT; number += 1) {
      const askedAt = performance.now();
      await ask(number);
      times.push(performance.now() - askedAt);
    }
    const { p95, ...quantiles } = findQuantiles(times);
    printRow({ name: `audit: ${name}`, ...quantiles, note: `p95 ${p95.toFixed(1)} ms` });
  };
  const readAll = async (query: Record<string, string>, limit = "50") => {
    let itemCount = 0;
    for await (const _ of await eventsQuery.run(eventsQuery.schema.parse({ ...query, limit }), options)) itemCount += 1;
    return itemCount;
  };
  const pick = (ids: string[], number: number) => ids[number % ids.length] as string;
  await measure("first 50 events of the clinic", () => readAll({ clinic: subjects.clinicId }));
  await measure("50 events of an animal", (number) => readAll({ animal: pick(subjects.animalIds, number) }));
  await measure("50 events of a customer", (number) => readAll({ customer: pick(subjects.customerIds, number) }));
  await measure("events of an appointment", (number) =>
    readAll({ appointment: pick(subjects.appointmentIds, number) }),
  );
  await measure("events of a request", (number) => readAll({ correlation: pick(subjects.correlationIds, number) }));
  await measure("50 events of an application", () => readAll({ application: subjects.applicationId }));
  await measure("50 events of an auditor", () => readAll({ auditor: subjects.auditorId }));
  await measure("50 events of a type", () => readAll({ clinic: subjects.clinicId, type: "AnimalRegistered" }));
  await measure("no event of an actor", () => readAll({ clinic: subjects.clinicId, actor: "operator:grace" }));
  await measure("no event of a day", () => readAll({ clinic: subjects.clinicId, day: "2020-05-06" }));
  await measure("latest", () => readAll({ clinic: subjects.clinicId, order: "newest", limit: "50" }));
  const readAccesses = async (query: Record<string, string>) => {
    for await (const _ of await accessesQuery.run(accessesQuery.schema.parse({ ...query, limit: "50" }), options));
  };
  await measure("50 accesses to the clinic", () => readAccesses({ clinic: subjects.clinicId }));
  await measure("accesses to an animal", (number) => readAccesses({ animal: pick(subjects.animalIds, number) }));
  const ofClinic = { clinic: subjects.clinicId };
  await measure("readers of the clinic", () => readersQuery.run(readersQuery.schema.parse(ofClinic), options));
  await measure("state of the clinic", () => clinicStateQuery.run(clinicStateQuery.schema.parse(ofClinic), options));

  const signer = await createAuditSigner(
    readConfig(["AUDIT_SIGNING_KEYS"], { AUDIT_SIGNING_KEYS: await createSigningKeys() }),
  );
  const exportedAt = performance.now();
  let lineCount = 0;
  const made = { signer, exportedBy: { type: "operator", id: "ada" }, accessId: randomUUID() };
  const exportOptions = { ...options, ...made, now: "2999-01-01T00:00:00.000Z" };
  for await (const _ of await exportClinic({ clinic: subjects.clinicId }, exportOptions)) lineCount += 1;
  printRow({
    name: `audit: export of ${lineCount} lines`,
    rate: (lineCount * 1_000) / (performance.now() - exportedAt),
  });
  controller.abort();
  await isRunning;
} finally {
  await log.kill();
  if (!process.env.AUDIT_BENCH_LOG) rmSync(folder, { recursive: true });
  await mochaGlobalTeardown();
}
