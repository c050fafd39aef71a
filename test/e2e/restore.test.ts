/**
 * The restore drill of docs/operations/backup.md: restores an older Postgres, a lost Postgres, an older log, and all
 * servers. All backups are made while the servers run.
 */
import { randomUUID } from "node:crypto";
import { copyFile, readFile, realpath } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "chai";
import pg from "pg";
import { ensureEmbeddedDatabase, withClient } from "../../deploy/local/servers/database-roles.ts";
import type { ServiceName } from "../../deploy/local/stack/environment.ts";
import type { Stack } from "../../deploy/local/stack/stack.ts";
import { readLogEnd } from "../../projection/checkpoints/log-end.ts";
import { DIFFERENT_LOG, DifferentLogError } from "../../projection/checkpoints/same-log.ts";
import { rebuildReadModels } from "../../projection/cli/rebuild.ts";
import { showStatus } from "../../projection/cli/status.ts";
import { verifyReadModels } from "../../projection/cli/verify.ts";
import { connectEventStore } from "../../shared/eventstore/connect.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { runAuditCommand } from "../command/audit/cli-terminal.ts";
import { runInProcess } from "../projection/in-process-cli.ts";
import { runCli } from "../projection/service-process.ts";
import { backUpLog, backUpPostgres, restoreFolder } from "../support/backups.ts";
import { eventually } from "../support/eventually.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";
import { makeTestRoot, startTestStack } from "../support/stack.ts";
import { listAcceptingLibraries, webhookLibraryNames } from "../support/webhook-libraries.ts";
import { createWorld, type World } from "./world.ts";

/** If true, the tests are skipped, because tests must not stop external servers. */
const hasExternalServers = ["EVENTSTORE_URL", "DATABASE_URL", "NATS_URL"].some((name) => process.env[name]);

/** Services that use Postgres. */
const SERVICES_WITH_POSTGRES: readonly ServiceName[] = ["projection", "command", "queryApi", "audit"];

const ISSUER = "https://api.clinic.example";
const SERVICE_ENV = {
  projection: { WEBHOOK_RETRY_SCHEDULE: Array.from({ length: 20 }, () => "1").join(",") },
  command: { TOKEN_ISSUER: ISSUER },
  queryApi: { TOKEN_ISSUER: ISSUER, PORTAL_JWT_ISSUER: `${ISSUER}/auth/v1` },
};

/** Line of `status` about a process that has stopped. */
const STOPPED_PROCESS_PATTERN = /^ {2}process {6}\S+ stopped: the event log is not the one/m;

(hasExternalServers ? describe.skip : describe)("a restore of backups", function () {
  this.timeout(300_000);
  let stack: Stack;
  let world: World;
  let receiver: Receiver;
  let pool: pg.Pool;
  let endpointSecret: string;
  /** Appointment before all backups. Its webhook is delivered before all backups. */
  let deliveredId: string;
  /** Appointment before all backups. Its webhook is not delivered before the backups. */
  let pendingId: string;
  /** Appointment that the backup of the log contains and the backup of Postgres lacks. */
  let laterId: string;
  /** Appointment after all backups. */
  let latestId: string;
  const latestKey = `restore-${randomUUID()}`;
  let latestCreatedAt: string;
  let exportEnd: string;
  const backupRoot = makeTestRoot();
  const backups = {
    log: join(backupRoot, "log"),
    postgres: join(backupRoot, "postgres"),
    secrets: join(backupRoot, "secrets.json"),
    auditExport: join(backupRoot, "export.ndjson"),
  };

  before(async () => {
    stack = await startTestStack({ serviceEnv: SERVICE_ENV });
    world = await createWorld(stack);
    receiver = await startReceiver();
    pool = openPool();
    const body = { url: receiver.url, events: ["appointment.created"] };
    const response = await world.requestPartner("POST", "/webhook-endpoints", { body });
    expect(response.status).to.equal(201);
    endpointSecret = response.body.secret;

    const { paths } = stack.servers.root;
    deliveredId = await createAppointment();
    await awaitDeliveryStatus(deliveredId, "delivered");
    receiver.setDefaultReaction({ status: 500 });
    pendingId = await createAppointment();
    await awaitWebhook(pendingId);
    await backUpPostgres(stack.servers.adminDatabaseUrl, await realpath(paths.postgres), backups.postgres);
    receiver.setDefaultReaction({});
    laterId = await createAppointment();
    await awaitDeliveryStatus(laterId, "delivered");
    await copyFile(paths.secrets, backups.secrets);
    await backUpLog(paths.eventstore, backups.log);
    exportEnd = new Date().toISOString();
    await exportClinic(backups.auditExport);
    latestCreatedAt = new Date().toISOString();
    latestId = await createAppointment(latestKey);
    for (const id of [latestId, pendingId]) await awaitDeliveryStatus(id, "delivered");
  });

  after(async () => {
    await pool?.end();
    await receiver?.close();
    await stack?.stop();
  });

  function openPool(): pg.Pool {
    const newPool = new pg.Pool({ connectionString: stack.servers.databaseUrls.projection });
    newPool.on("error", () => undefined); // the tests stop Postgres
    return newPool;
  }
  const createAppointment = async (idempotencyKey = `restore-${randomUUID()}`): Promise<string> => {
    const createResponse = await eventually(
      "an appointment",
      async () => {
        const response = await world.createAppointment(idempotencyKey);
        return response.status === 201 && response;
      },
      30_000,
    );
    return createResponse.body.appointment.id;
  };
  const parseAppointmentId = (body: string): string => JSON.parse(body).data.appointment.id;
  const listWebhooks = (id: string) => receiver.requests.filter(({ body }) => parseAppointmentId(body) === id);
  /** Counts the successful webhooks of an appointment. All of them must have the same id. */
  const countWebhooks = (id: string) => {
    expect(new Set(listWebhooks(id).map(({ headers }) => headers["webhook-id"])).size).to.be.at.most(1);
    return listWebhooks(id).filter(({ status }) => status === 200).length;
  };
  const awaitWebhook = (id: string) => eventually("the webhook", () => listWebhooks(id).length > 0, 30_000);
  const listShownIds = async () => [...(await world.listPortalAppointments()).keys()];
  const awaitAppointment = (id: string) =>
    eventually("the appointment", async () => (await listShownIds()).includes(id), 30_000);
  const readHealth = async () => {
    const response = await fetch(`${stack.urls.projection}/health/ready`);
    return {
      status: response.status,
      parts: ((await response.json()) as { parts: Record<string, string | null> }).parts,
    };
  };
  const awaitReadiness = () => eventually("ready", async () => (await readHealth()).status === 200, 30_000);
  /** Returns all data that the projection service writes, and the end of the log. */
  const readWrittenData = async () => {
    const { rows } = await pool.query(
      `SELECT (SELECT to_jsonb(c) FROM ${READ_MODEL_SCHEMA}.checkpoint c) AS read_models,
              (SELECT to_jsonb(c) FROM webhooks.relay_checkpoint c) AS relay,
              (SELECT count(*) FROM ${READ_MODEL_SCHEMA}.appointment) AS appointments,
              (SELECT jsonb_agg(to_jsonb(d) ORDER BY d.delivery_id) FROM webhooks.delivery d) AS deliveries,
              (SELECT jsonb_agg(to_jsonb(p) ORDER BY p.delivery_id) FROM webhooks.pending_delivery p) AS pending,
              (SELECT count(*) FROM webhooks.attempt) AS attempts, (SELECT count(*) FROM webhooks.outbox) AS facts`,
    );
    const client = connectEventStore(stack.servers.eventstoreUrl, "test");
    const logEnd = await readLogEnd(client).finally(() => client.dispose());
    return { ...rows[0], end: logEnd, requests: receiver.requests.length };
  };
  const readDeliveryStatus = async (appointmentId: string) => {
    const { rows } = await pool.query("SELECT status FROM webhooks.delivery WHERE event_stream = $1", [
      `appointment-${appointmentId}`,
    ]);
    return rows[0]?.status;
  };
  const awaitDeliveryStatus = (appointmentId: string, status: string) =>
    eventually(`a ${status} delivery`, async () => (await readDeliveryStatus(appointmentId)) === status, 30_000);
  const getProjectionServers = () => {
    const { eventstoreUrl, natsUrl, databaseUrls } = stack.servers;
    return { eventstoreUrl, natsUrl, databaseUrl: databaseUrls.projection };
  };
  const runProjection = (...args: string[]) => runCli(getProjectionServers(), args);
  const verify = async () => (await runInProcess(getProjectionServers(), verifyReadModels)).stdout;
  const exportClinic = async (file: string) => {
    const env = { ...stack.env.audit, EVENTSTORE_URL: stack.servers.eventstoreUrl };
    const args = ["export", "--clinic", world.clinicId, "--to", exportEnd, "--out", file];
    const result = await runAuditCommand(args, { env });
    expect(result.code, result.errorLines.join("\n")).to.equal(0);
  };
  /**
   * Runs a function while all services that use Postgres are stopped.
   *
   * @param neededServices services that are started afterwards
   */
  const withStoppedServices = async (run: () => Promise<void>, neededServices = SERVICES_WITH_POSTGRES) => {
    await Promise.all(SERVICES_WITH_POSTGRES.map((name) => stack.components[name].stop()));
    await pool.end();
    await run();
    pool = openPool();
    await Promise.all(neededServices.map((name) => stack.components[name].start()));
  };

  it("if Postgres is restored from a backup that is older than the log, all data comes back without a command", async () => {
    const { postgres } = stack.components;
    await withStoppedServices(async () => {
      await postgres.stop();
      await restoreFolder(backups.postgres, await realpath(stack.servers.root.paths.postgres));
      await postgres.start();
    }, ["projection", "queryApi"]);
    for (const id of [deliveredId, pendingId, laterId, latestId]) await awaitDeliveryStatus(id, "delivered");
    expect(await listShownIds()).to.have.members([deliveredId, pendingId, laterId, latestId]);
    // Postgres had lost the outcomes of these deliveries, except the first.
    expect([deliveredId, pendingId, laterId, latestId].map(countWebhooks)).to.deep.equal([1, 2, 2, 2]);
    expect(await verify()).to.match(/: 0 differ$/m);
    await awaitReadiness();
  });

  it("if Postgres is lost, an operator restores all data from the log, and chooses which webhooks are sent", async () => {
    const { adminDatabaseUrl, root } = stack.servers;
    await withStoppedServices(async () => {
      await withClient(adminDatabaseUrl, (client) => client.query("DROP DATABASE clinic"));
      await ensureEmbeddedDatabase(adminDatabaseUrl, "clinic", root.secrets.postgres);
      expect((await runProjection("migrate")).code).to.equal(0);
      const adoptResult = await runProjection("rebuild", "--adopt-log", "--tell-since", latestCreatedAt);
      expect(adoptResult.code, adoptResult.stderr).to.equal(0);
    });
    await awaitDeliveryStatus(latestId, "delivered");
    expect(await listShownIds()).to.have.members([deliveredId, pendingId, laterId, latestId]);
    expect([deliveredId, pendingId, laterId, latestId].map(countWebhooks)).to.deep.equal([1, 2, 2, 3]);
    expect((await pool.query("SELECT FROM webhooks.delivery")).rowCount).to.equal(1);
    expect(await verify()).to.match(/: 0 differ$/m);
    await awaitReadiness();
  });

  it("if the log is restored from an older copy, the projection stops until an operator runs `adopt`", async () => {
    const { eventstore } = stack.components;
    const dir = stack.servers.root.paths.eventstore;
    const backupDir = join(backupRoot, "older-log");
    const keptAppointmentId = await createAppointment();
    await awaitWebhook(keptAppointmentId);
    receiver.setDefaultReaction({ status: 500 });
    const pendingAppointmentId = await createAppointment();
    await awaitAppointment(pendingAppointmentId);
    await awaitWebhook(pendingAppointmentId);
    await backUpLog(dir, backupDir);
    const lostAppointmentId = await createAppointment();
    await awaitAppointment(lostAppointmentId);
    await awaitWebhook(lostAppointmentId);

    await eventstore.stop();
    await restoreFolder(backupDir, dir);
    const restoredAt = new Date().toISOString();
    await eventstore.start();
    const stoppedText = `stopped: ${DIFFERENT_LOG}`;
    await eventually(
      "all roles stop",
      async () => {
        const { status, parts } = await readHealth();
        return status === 503 && Object.values(parts).every((part) => part?.startsWith(stoppedText));
      },
      30_000,
    );
    const dataBefore = await readWrittenData();
    const verifyResult = await runProjection("verify");
    // The processes report their status at intervals.
    const statusResult = await eventually("the status of the stopped process", async () => {
      const result = await runInProcess(getProjectionServers(), (context) => showStatus(context, { json: false }));
      return STOPPED_PROCESS_PATTERN.test(result.stdout) ? result : undefined;
    });
    expect(verifyResult.code).to.equal(2);
    expect(verifyResult.stderr).to.match(
      /^\nprojection: The event log is not the one that this database was built from: the read models stopped after event [0-9a-f-]{36} at position \d+, but the log ends at position \d+\. .* To continue with this log instead, run `clinic projection rebuild --adopt-log`\.\n$/,
    );
    expect(statusResult.stdout).to.match(/^The event log is not the one that this database was built from: /);
    const rebuildError = await runInProcess(getProjectionServers(), rebuildReadModels).catch((error: unknown) => error);
    expect(rebuildError).to.be.instanceOf(DifferentLogError);
    // Nothing was written or sent while the commands ran.
    expect(await readWrittenData()).to.deep.equal(dataBefore);

    const earlyAppointmentId = await createAppointment();
    receiver.setDefaultReaction({});
    const rebuildResult = await runProjection("rebuild", "--adopt-log", "--tell-since", restoredAt);
    expect(rebuildResult.code, rebuildResult.stderr).to.equal(0);
    expect(rebuildResult.stdout).to.match(
      /^The relay continues after position \d+\. Webhooks for earlier events are not sent/m,
    );
    expect(rebuildResult.stdout).to.match(/^The log does not hold the events of 1 pending deliveries and /m);

    for (const id of [earlyAppointmentId, await createAppointment()]) {
      await awaitAppointment(id);
      await awaitWebhook(id);
    }
    await eventually("the retry", async () => (await readDeliveryStatus(pendingAppointmentId)) === "delivered", 30_000);
    expect(await listShownIds())
      .to.include.members([keptAppointmentId, pendingAppointmentId, earlyAppointmentId])
      .and.not.include(lostAppointmentId);
    expect(await readDeliveryStatus(lostAppointmentId)).to.equal("cancelled");
    expect(countWebhooks(keptAppointmentId)).to.equal(1);
    await awaitReadiness();
    expect(await verify()).to.match(/: 0 differ$/m);
    const secondRebuildResult = await runProjection("rebuild", "--adopt-log");
    expect([secondRebuildResult.code, secondRebuildResult.stderr]).to.deep.equal([
      1,
      "\nprojection: This database was built from this event log, so there is nothing to adopt. Run rebuild without --adopt-log.\n",
    ]);
  });

  it("if all servers are lost, backups of the log, Postgres and the keys restore the service on a new machine", async () => {
    await stack.stop();
    const root = makeTestRoot();
    await copyFile(backups.secrets, join(root, "secrets.json"));
    await restoreFolder(backups.log, join(root, "eventstore"));
    await restoreFolder(backups.postgres, join(root, "postgres"));
    await pool.end();
    const countsBefore = [deliveredId, pendingId, laterId].map(countWebhooks);
    stack = await startTestStack({ root, serviceEnv: SERVICE_ENV });
    pool = openPool();
    // The partner's token and the portal user's session are those from before the loss.
    world.moveTo(stack);
    for (const id of [pendingId, laterId]) await awaitDeliveryStatus(id, "delivered");
    expect(await listShownIds()).to.have.members([deliveredId, pendingId, laterId]);
    const [deliveredCount = 0, pendingCount = 0, laterCount = 0] = countsBefore;
    expect([deliveredId, pendingId, laterId].map(countWebhooks)).to.deep.equal([
      deliveredCount,
      pendingCount + 1,
      laterCount + 1,
    ]);
    // The backup lacks the latest appointment, so the same request creates it again.
    expect(await createAppointment(latestKey)).to.equal(latestId);
    await awaitDeliveryStatus(latestId, "delivered");
    const webhook = listWebhooks(latestId).at(-1)!;
    expect(listAcceptingLibraries(endpointSecret, webhook)).to.deep.equal(webhookLibraryNames);
    const newExport = join(backupRoot, "new-export.ndjson");
    await exportClinic(newExport);
    expect(await readChain(newExport)).to.equal(await readChain(backups.auditExport));
    const { output: thumbprint } = await runAuditCommand(["keys", "--thumbprint"], { env: stack.env.audit });
    const verifyArgs = ["verify", backups.auditExport, "--key", thumbprint.trim(), "--clinic", world.clinicId];
    expect((await runAuditCommand(verifyArgs)).code).to.equal(0);
    expect(await verify()).to.match(/: 0 differ$/m);
  });
});

/** Reads the last link of the hash chain of an audit export. */
async function readChain(file: string): Promise<string> {
  const lastLine = (await readFile(file, "utf8")).trimEnd().split("\n").at(-1) ?? "";
  return JSON.parse(lastLine).manifest.chain;
}
