import { randomUUID } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import type pg from "pg";
import { requestAppointment } from "../../command/operations/appointment-operations.ts";
import { changeCustomer, registerAnimal, registerCustomer } from "../../command/operations/customer-operations.ts";
import { issueTicket } from "../../command/operations/front-desk-operations.ts";
import { hireStaff } from "../../command/operations/people-operations.ts";
import { registerEndpoint } from "../../command/operations/webhook-endpoint-operations.ts";
import { withClient } from "../../deploy/local/servers/database-roles.ts";
import type { Servers } from "../../deploy/local/servers/servers.ts";
import { verify } from "../../projection/engine/verify.ts";
import { readModels } from "../../projection/read-models/all.ts";
import { startProjection } from "../../projection/start.ts";
import { createSecretBox } from "../../shared/auth/secret-box.ts";
import { createEventLog } from "../../shared/eventstore/log.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { runClinic } from "../command/cli/terminal.ts";
import { logger, runProjectionCommand } from "../projection/engine-world.ts";
import { type CapturedLogs, captureLogs } from "../support/captured-logs.ts";
import { connectToLog, createTestPool } from "../support/connections.ts";
import { createTestDataKeys, PERSONAL_DATA_KEYS } from "../support/data-keys.ts";
import { eventually } from "../support/eventually.ts";
import { createDatabaseWithReadModels } from "../support/migrated-database.ts";
import { createApplication, createClinic, createTestOperatorContext, installApplication } from "../support/partner.ts";
import { autoStop } from "../support/resources.ts";
import { getTestServers, type TestDatabase } from "../support/stack.ts";

const secretKeys = { current: "k1", keys: { k1: Buffer.alloc(32, 5).toString("base64") } };

/** Texts to erase, by field. Each is random, so that other tests do not write it. */
const erasedTexts = Object.fromEntries(
  ["fullName", "phone", "email", "city", "formerCity", "animal", "species", "reason", "notes", "ticket", "staff"].map(
    (name) => [name, `${name}q${randomUUID().replaceAll("-", "").slice(0, 16)}`.toLowerCase()],
  ),
);

/** Text of a customer who is not erased. */
const KEPT_TEXT = `kept${randomUUID().replaceAll("-", "").slice(0, 16)}`;

describe("the bytes of erased data", function () {
  this.timeout(180_000);
  let servers: Servers;
  let database: TestDatabase;
  let client: EventStoreDBClient;
  let pool: pg.Pool;
  let logs: CapturedLogs;
  const startedAtMs = Date.now();

  before(async function () {
    servers = await getTestServers();
    // The files of external servers cannot be read.
    if (Object.values(servers.components).some(({ isExternal }) => isExternal)) this.skip();
    database = await createDatabaseWithReadModels();
    client = connectToLog(servers.eventstoreUrl);
    const { projection: url } = database.urls;
    pool = createTestPool(url);
    logs = captureLogs();
    await startRoles("projectors,relay");
  });

  const startRoles = (ROLES: string) =>
    autoStop(
      startProjection({
        PORT: "0",
        LOG_LEVEL: "debug",
        EVENTSTORE_URL: servers.eventstoreUrl,
        NATS_URL: servers.natsUrl,
        ROLES,
        DATABASE_URL: database.urls.projection,
        WEBHOOK_SECRET_KEYS: JSON.stringify(secretKeys),
        PERSONAL_DATA_KEYS,
        WEBHOOK_ALLOW_LOOPBACK: "true",
      }),
    );

  const runAsSuperuser = (...statements: string[]) =>
    withClient(servers.adminDatabaseUrl, async (connection) => {
      for (const statement of statements) await connection.query(statement);
    });

  /**
   * Searches a server's files for texts, ignoring case. Skips files older than the test, because they belong to the
   * databases of other tests.
   *
   * @returns the names of the found texts
   */
  function findTexts(folder: string, texts: Record<string, string | undefined>): string[] {
    const foundNames = new Set<string>();
    for (const entry of fs.readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const content = readFileSince(startedAtMs, path.join(entry.parentPath, entry.name))?.toLowerCase();
      for (const [name, text] of Object.entries(texts))
        if (content?.includes(text?.toLowerCase() ?? "")) foundNames.add(name);
    }
    return [...foundNames].sort();
  }

  it("no file of Postgres, the event log or JetStream and no log line contains erased data", async () => {
    const ids = await recordPersonalData();
    await runAsSuperuser("CHECKPOINT");
    const { paths } = servers.root;
    expect(findTexts(paths.postgres, erasedTexts)).to.deep.equal(Object.keys(erasedTexts).sort());
    const { appointmentId } = ids;
    for (const folder of [paths.nats, paths.eventstore]) {
      await eventually(`the appointment in ${folder}`, () => findTexts(folder, { appointmentId }).length > 0);
      expect(findTexts(folder, erasedTexts)).to.deep.equal([]);
    }
    await startRoles("webhooks");
    await eventually("the webhook delivery", async () => {
      const { rowCount } = await pool.query("SELECT FROM webhooks.delivery WHERE appointment_id = $1", [appointmentId]);
      return rowCount === 1;
    });

    const env = { EVENTSTORE_URL: servers.eventstoreUrl, DATABASE_URL: database.urls.projection };
    const reason = ["--clinic", ids.clinicId, "--reason", "Request 17"];
    for (const [noun, id] of [
      ["customer", ids.customerId],
      ["staff", ids.staffId],
    ] as const)
      expect(await runClinic([noun, "erase", `--${noun}`, id, ...reason], { env })).to.include({ code: 0 });
    const urls = { eventstoreUrl: servers.eventstoreUrl, databaseUrl: database.urls.projection };
    expect(await runProjectionCommand(urls, "scrub")).to.include({ code: 0 });
    await deleteFormerWal();
    const differences: unknown[] = [];
    const verifyOptions = { client, pool, dataKeys: createTestDataKeys(pool), models: readModels, logger };
    await verify(
      { ...verifyOptions, onProgress: () => undefined, onDifference: (difference) => differences.push(difference) },
      new AbortController().signal,
    );
    expect(differences, "a rebuild gives the same rows").to.deep.equal([]);

    expect(findTexts(paths.root, { ...erasedTexts, KEPT_TEXT })).to.deep.equal(["KEPT_TEXT"]);
    expect(logs.text()).to.contain('"service":"projection"');
    for (const [name, text] of Object.entries(erasedTexts)) expect(logs.text(), name).not.to.contain(text);
  });

  /** Makes Postgres delete the WAL segments with former rows, which it would otherwise overwrite later. */
  async function deleteFormerWal(): Promise<void> {
    await runAsSuperuser("ALTER SYSTEM SET wal_recycle = off", "SELECT pg_reload_conf()");
    for (let count = 0; count < 2; count += 1) await runAsSuperuser("SELECT pg_switch_wal()", "CHECKPOINT");
    await runAsSuperuser("ALTER SYSTEM RESET wal_recycle", "SELECT pg_reload_conf()");
  }

  const waitForRow = (table: "customer" | "staff", id: string) =>
    eventually(`the row of ${table} ${id}`, async () => {
      const sql = `SELECT FROM ${READ_MODEL_SCHEMA}.${table} WHERE ${table}_id = $1`;
      return (await pool.query(sql, [id])).rowCount === 1;
    });

  /** Records a customer with an animal, an appointment, a queue ticket and a webhook. Also records a staff member. */
  async function recordPersonalData() {
    const log = createEventLog(client, { dataKeys: createTestDataKeys(pool) });
    const context = createTestOperatorContext();
    const clinic = await createClinic(log);
    const { clinicId, branchId } = clinic;
    const application = await createApplication(log);
    await installApplication(log, application, clinic);
    const owner = { applicationId: application.applicationId, clinicId, environment: clinic.environment };
    const endpoint = { owner, url: "http://127.0.0.1:9/hooks", events: ["appointment.created" as const] };
    await registerEndpoint({ log, secretBox: createSecretBox(secretKeys) }, endpoint, context);
    const [customerId, keptId, animalId, appointmentId, ticketId, staffId] = Array.from({ length: 6 }, () =>
      randomUUID(),
    ) as [string, string, string, string, string, string];
    const { fullName = "", phone = "", city = "", formerCity = "", animal = "", species = "" } = erasedTexts;
    const email = `${erasedTexts.email}@example.com`;
    const contact = { fullName, phone, email, city: formerCity };
    await registerCustomer(log, { customerId, clinicId, ...contact }, context);
    // The projectors could write both events as one version of the row.
    await waitForRow("customer", customerId);
    await changeCustomer(log, { customerId, clinicId, city }, context);
    const keptContact = { fullName: KEPT_TEXT, phone: null, email: null, city: null };
    await registerCustomer(log, { customerId: keptId, clinicId, ...keptContact }, context);
    const details = { name: animal, species, breed: null, sex: null, birthDate: null, microchip: null, weightKg: 4 };
    await registerAnimal(log, { animalId, clinicId, customerId, ...details }, context);
    const { reason = "", notes = "", ticket = "", staff = "" } = erasedTexts;
    const scheduledAt = new Date(Date.now() + 86_400_000).toISOString();
    const visit = { appointmentId, clinicId, branchId, animalId, scheduledAt, durationMinutes: 30, reason, notes };
    await requestAppointment(log, visit, context);
    const ticketDetails = { ticketNumber: "A1", queueDate: "2026-05-04", arrivalType: "walk_in", priority: "normal" };
    const references = { ticketId, clinicId, branchId, animalId, appointmentId: null, visitId: null };
    await issueTicket(log, { ...references, ...ticketDetails, estimatedWaitMinutes: null, notes: ticket }, context);
    await hireStaff(log, { staffId, clinicId, userId: null, fullName: staff, email: null, role: "owner" }, context);
    await waitForRow("staff", staffId);
    return { clinicId, customerId, staffId, appointmentId };
  }
});

/** Reads a file. @returns undefined if it was last written before `sinceMs`, or no longer exists */
function readFileSince(sinceMs: number, file: string): string | undefined {
  try {
    return fs.statSync(file).mtimeMs < sinceMs ? undefined : fs.readFileSync(file, "latin1");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
