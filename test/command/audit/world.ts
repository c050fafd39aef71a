/** Starts the audit service in this process on the shared servers, and creates clinics for its tests. */

import { randomUUID } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { exportJWK, generateKeyPair } from "jose";
import type pg from "pg";
import { AuditIndex } from "../../../command/audit/index/audit-index.ts";
import { readIndexCheckpoint } from "../../../command/audit/index/index-store.ts";
import type { AuditEvent } from "../../../command/audit/log/audit-event.ts";
import { startAuditService } from "../../../command/audit/start.ts";
import type { CommandContext } from "../../../command/handling/handle.ts";
import {
  cancelAppointment,
  confirmAppointment,
  requestAppointment,
} from "../../../command/operations/appointment-operations.ts";
import { registerAuditor, revokeAuditor } from "../../../command/operations/auditor-operations.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { readLogEnd } from "../../../shared/eventstore/read-log.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import {
  animalRegistered,
  appointmentRequested,
  branchOpened,
  clinicRegistered,
  customerRegistered,
} from "../../support/clinics.ts";
import { PERSONAL_DATA_KEYS } from "../../support/data-keys.ts";
import { eventually } from "../../support/eventually.ts";
import { createMigratedDatabase } from "../../support/migrated-database.ts";
import { requireNoSniffing } from "../../support/no-sniffing.ts";
import { startOwnLog } from "../../support/own-log.ts";
import { createClinic, createTestOperatorContext, type TestClinic } from "../../support/partner.ts";
import { createPlainLog } from "../../support/plain-log.ts";
import type { ReadModelDatabase } from "../../support/read-models.ts";
import { autoStop } from "../../support/resources.ts";
import { makeTestRoot, type TestDatabase } from "../../support/stack.ts";
import { runAuditCommand } from "./cli-terminal.ts";

export type AuditWorld = Awaited<ReturnType<typeof startAuditWorld>>;

export type TestAuditor = Awaited<ReturnType<typeof createTestAuditor>>;

export interface AuditResponse {
  status: number;
  headers: Headers;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: each test knows which fields it expects
  body: any;
  /** Parsed lines of an NDJSON response without the last line, whose value is in `end`. */
  // biome-ignore lint/suspicious/noExplicitAny: each test knows which fields it expects
  lines: any[];
  // biome-ignore lint/suspicious/noExplicitAny: each test knows which fields it expects
  end: any;
}

export async function createSigningKeys(kid = "audit-test"): Promise<string> {
  const { privateKey } = await generateKeyPair("EdDSA", { crv: "Ed25519", extractable: true });
  return JSON.stringify({ keys: [{ ...(await exportJWK(privateKey)), kid }] });
}

/**
 * Starts an audit service.
 *
 * @param settings replace default settings
 * @param eventstoreUrl event log; default: a new log, because the audit service reads the whole log
 * @param givenDatabase database with read models; default: a new database with empty read models
 */
export async function startAuditWorld(
  settings: Record<string, string> = {},
  eventstoreUrl?: string,
  givenDatabase?: TestDatabase,
) {
  const ownLog = eventstoreUrl === undefined ? await startOwnLog() : undefined;
  const logUrl = eventstoreUrl ?? ownLog!.eventstoreUrl;
  const database = givenDatabase ?? (await createMigratedDatabase());
  const env = {
    PORT: "0",
    LOG_LEVEL: "fatal",
    EVENTSTORE_URL: logUrl,
    DATABASE_URL: database.urls.audit,
    AUDIT_SIGNING_KEYS: await createSigningKeys(),
    // Only tests of tree heads publish them.
    AUDIT_TREE_HEAD_INTERVAL_MS: "0",
    PERSONAL_DATA_KEYS,
    ...settings,
  };
  const service = await autoStop(startAuditService(env));
  const client = connectEventStore(logUrl, "test");
  const log = createPlainLog(client);
  const poolOptions = { applicationName: "test", size: 1, connectTimeoutMs: 60_000, statementTimeoutMs: 20_000 };
  const [pool, owner] = [database.urls.audit, database.urls.projection].map((url) =>
    createPool({ ...poolOptions, url, logger: createLogger("test", "silent") }),
  ) as [pg.Pool, pg.Pool];
  const folder = makeTestRoot();
  const nameFile = () => path.join(folder, randomUUID());
  const writeFile = (content: string) => {
    const file = nameFile();
    fs.writeFileSync(file, content);
    return file;
  };
  /** Runs the auditors' command line. With the default settings, first waits until the index covers the log. */
  const run = async (args: string[], runEnv: NodeJS.ProcessEnv = env) => {
    if (runEnv === env) {
      const logEnd = await readLogEnd(client);
      await eventually("the index", async () => (await readIndexCheckpoint(pool)).position >= logEnd);
    }
    return runAuditCommand(args, { env: runEnv });
  };
  return {
    ...{ url: service.url, client, log, database, index: new AuditIndex(() => pool) },
    /** `pool` has the rights of the audit service, and `owner` has the rights of the tables' owner. */
    ...{ pool, owner },
    /** Settings of the audit service and of the auditors' command line. */
    env,
    /** Registers an auditor for the given clinics. Null means all clinics and all other records. */
    registerAuditor: (clinicIds: string[] | null, expiresAt: string | null = null) =>
      createTestAuditor(service.url, log, clinicIds, expiresAt),
    ...{ folder, nameFile, writeFile, run },
    /** Path of a file with the audit service's public keys. */
    keyFile: writeFile((await runAuditCommand(["keys"], { env })).output),
    /** Publishes a tree head if there are new events. Returns the path of a file with the last tree head. */
    async publishHead(args: string[] = []) {
      const { code, output, errorLines } = await run(["tree-head", "--actor", "ada", ...args]);
      if (code !== 0) throw new Error(errorLines.join("\n"));
      return writeFile(output);
    },
    async stop() {
      await service.stop();
      await Promise.all([client.dispose(), pool.end(), owner.end()]);
      await ownLog?.stop();
      if (!givenDatabase) await database.drop();
    },
  };
}

/**
 * Starts an audit service before a test suite, and stops it afterwards. The returned objects are empty until the suite
 * starts.
 *
 * @param notes notes of the clinic's appointment
 */
export function useAuditWorld(settings: Record<string, string> = {}, notes: string | null = null) {
  const world = {} as AuditWorld;
  const history = {} as ClinicHistory;
  /** Auditor who may see the clinic. */
  const auditor = {} as TestAuditor;
  before(async () => {
    Object.assign(world, await startAuditWorld(settings));
    Object.assign(history, await createClinicWithHistory(world.log, notes));
    Object.assign(auditor, await world.registerAuditor([history.clinicId]));
  });
  after(() => world.stop?.());
  return { world, history, auditor };
}

async function createTestAuditor(url: string, log: EventLog, clinicIds: string[] | null, expiresAt: string | null) {
  const auditorId = randomUUID();
  const input = { auditorId, name: "Ada Audit", clinicIds, expiresAt };
  const { credential } = await registerAuditor(log, input, createTestOperatorContext(0));
  return {
    auditorId,
    credential,
    request: (requestPath: string, headers: Record<string, string> = {}) =>
      requestAudit(`${url}${requestPath}`, { Authorization: `Bearer ${credential}`, ...headers }),
    revoke: () => revokeAuditor(log, { auditorId, reason: null }, createTestOperatorContext()),
  };
}

/** @param body JSON of a POST request; undefined for a GET request */
export async function requestAudit(
  url: string,
  headers: Record<string, string> = {},
  body?: string,
): Promise<AuditResponse> {
  const postHeaders = { ...headers, "Content-Type": "application/json" };
  const response = await fetch(url, body === undefined ? { headers } : { method: "POST", body, headers: postHeaders });
  requireNoSniffing(response);
  const text = await response.text();
  const type = response.headers.get("Content-Type") ?? "";
  const lines = type.includes("ndjson") ? parseLines(text) : [];
  const end = lines.pop()?.end;
  const parsedBody = type.includes("application/json") ? JSON.parse(text) : undefined;
  return { status: response.status, headers: response.headers, text, body: parsedBody, lines, end };
}

export interface ClinicHistory extends TestClinic {
  appointmentId: string;
  stream: string;
  /** Context of the command that requested the appointment. */
  requestContext: CommandContext;
}

/** The operator's note in the event AppointmentConfirmed of `createClinicWithHistory`. */
export const CONFIRMATION_NOTE = "Ada Example";

/** Creates a clinic with one appointment, which is requested, confirmed and cancelled. */
export async function createClinicWithHistory(log: EventLog, notes: string | null = null): Promise<ClinicHistory> {
  const clinic = await createClinic(log);
  const appointmentId = randomUUID();
  const { clinicId, branchId, animalId } = clinic;
  const requestContext = createTestOperatorContext(Date.parse("2026-05-04T08:00:00Z"));
  const createContextAfter = (minutes: number) => createTestOperatorContext(requestContext.now + minutes * 60_000);
  const schedule = { scheduledAt: "2026-05-06T10:00:00.000Z", durationMinutes: 30 };
  await requestAppointment(
    log,
    { appointmentId, clinicId, branchId, animalId, ...schedule, reason: "Check-up", notes },
    requestContext,
  );
  const confirmContext = createContextAfter(10);
  const confirmActor = { ...confirmContext.actor, note: CONFIRMATION_NOTE };
  await confirmAppointment(log, { appointmentId, clinicId }, { ...confirmContext, actor: confirmActor });
  await cancelAppointment(log, { appointmentId, clinicId, reason: "Moved away" }, createContextAfter(20));
  return { ...clinic, appointmentId, stream: `appointment-${appointmentId}`, requestContext };
}

export async function fillReadModels(database: ReadModelDatabase, history: ClinicHistory): Promise<void> {
  const { clinicId, branchId, customerId, animalId, appointmentId } = history;
  await database.given(
    clinicRegistered(clinicId),
    branchOpened(clinicId, branchId),
    customerRegistered(clinicId, customerId),
    animalRegistered(clinicId, customerId, animalId),
    appointmentRequested(clinicId, branchId, "2026-05-06T10:00:00.000Z", { appointmentId, customerId, animalId }),
  );
}

/**
 * Inserts two deliveries of the appointment's first event: one of the clinic, and one of another clinic. Only the first
 * delivery has an attempt.
 *
 * @param responseBody response body of the attempt
 */
export async function insertDeliveries(
  { owner }: AuditWorld,
  { stream, clinicId }: ClinicHistory,
  responseBody: string,
): Promise<void> {
  const deliveryId = randomUUID();
  for (const [id, clinic] of [
    [deliveryId, clinicId],
    [randomUUID(), randomUUID()],
  ]) {
    await owner.query(
      `INSERT INTO webhooks.delivery (delivery_id, endpoint_id, clinic_id, branch_id, application_id, environment,
         event_id, event_type, appointment_id, event_position, status, cause_id, correlation_id, created_at, updated_at)
       VALUES ($1, $2, $3, $2, $2, 'production', $2, 'appointment.created', $4, 0, 'failed', $2, $2, now(), now())`,
      [id, randomUUID(), clinic, stream.slice("appointment-".length)],
    );
  }
  await owner.query("INSERT INTO webhooks.attempt VALUES ($1, 1, now(), 42, 500, NULL, $2)", [
    deliveryId,
    responseBody,
  ]);
}

export const getTypes = (events: AuditEvent[]) => events.map(({ type }) => type);

// biome-ignore lint/suspicious/noExplicitAny: each test knows which fields it expects
export const readJson = (file: string): any => JSON.parse(fs.readFileSync(file, "utf8"));

// biome-ignore lint/suspicious/noExplicitAny: each test knows which fields it expects
export const parseLines = (text: string): any[] =>
  text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
