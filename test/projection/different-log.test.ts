import { randomUUID } from "node:crypto";
import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "chai";
import { type LogServer, startLogServer } from "../../deploy/local/eventstore/server.ts";
import { DIFFERENT_LOG } from "../../projection/checkpoints/same-log.ts";
import { readWebhookCheckpoint } from "../../projection/checkpoints/webhook-checkpoints.ts";
import { buildTablesDdl } from "../../projection/engine/ddl.ts";
import { NEXT_SCHEMA } from "../../projection/engine/rebuild.ts";
import { readModels } from "../../projection/read-models/all.ts";
import { startProjection } from "../../projection/start.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import type { RunningService } from "../../shared/runtime/run-service.ts";
import { makeTemporaryDir } from "../deploy/eventstore/log-process.ts";
import { type CapturedLogs, captureLogs } from "../support/captured-logs.ts";
import { eventually } from "../support/eventually.ts";
import { insertFailingEndpoint } from "../support/failing-endpoint.ts";
import { findFreePort } from "../support/free-ports.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";
import type { LogLine } from "../support/service-entry.ts";
import { runProjectionCommand } from "./engine-world.ts";
import { buildServiceSettings, createProbe, type ServiceProbe } from "./service-process.ts";
import { SECRET_KEYS } from "./webhooks/service-settings.ts";
import { createWorld, type Endpoint, type World } from "./webhooks/world.ts";

const ROLES = "projectors,relay,webhooks";

describe("a projection whose database was built from another log", function () {
  this.timeout(300_000);
  let dir: string;
  let port: number;
  let log: LogServer;
  let world: World;
  let logs: CapturedLogs;
  let service: ServiceProbe & Pick<RunningService, "stop">;
  let receiver: Receiver;
  let endpoint: Endpoint;

  beforeEach(async () => {
    dir = makeTemporaryDir();
    port = await findFreePort();
    log = await startLog();
    world = await createWorld({ eventstoreUrl: `esdb://127.0.0.1:${port}?tls=false` });
    receiver = await startReceiver();
    endpoint = await world.registerEndpoint(receiver.url);
    logs = captureLogs();
    service = await startRoles();
  });

  afterEach(async () => {
    await service.stop();
    await log.stop();
  });

  const startLog = () => startLogServer({ dir: join(dir, "log"), host: "127.0.0.1", port, shouldSync: false });
  const startRoles = async () => {
    const running = await startProjection(buildServiceSettings({ ...world, roles: ROLES, secretKeys: SECRET_KEYS }));
    let stopPromise: Promise<void> | undefined;
    const stop = () => {
      stopPromise ??= running.stop();
      return stopPromise;
    };
    return { stop, ...createProbe(running.url) };
  };
  const run = (...args: string[]) => runProjectionCommand(world, ...args);
  const adoptLog = () => run("rebuild", "--adopt-log");
  const readStatus = async (...args: string[]) => (await run("status", ...args)).stdout;
  /** Stops the log, changes its files, and restarts it on the same port. */
  const replaceLog = async (change: (logDir: string) => Promise<void>) => {
    await log.stop();
    await change(join(dir, "log"));
    log = await startLog();
  };
  const copy = (sourceDir: string, targetDir: string) => cp(sourceDir, targetDir, { recursive: true });
  const backupPath = join("..", "backup");
  const restoreBackup = async (logDir: string) => {
    await rm(logDir, { recursive: true });
    await copy(join(logDir, backupPath), logDir);
  };
  /** Requests an appointment. Retries while the log is unavailable. */
  const requestAppointment = (clinicId = endpoint.clinicId) =>
    eventually("an appointment", () => world.requestAppointment(clinicId).catch(() => undefined));
  const awaitDelivery = (eventId: string, targetEndpoint = endpoint) =>
    world.awaitStatus(eventId, targetEndpoint, "delivered");
  const awaitReadiness = () => eventually("ready", async () => (await service.readHealth()).status === 200);
  const awaitStop = () =>
    eventually("all roles stop", async () => {
      const { status, parts } = await service.readHealth();
      return status === 503 && Object.values(parts).every((text) => text?.startsWith(`stopped: ${DIFFERENT_LOG}`));
    });
  const hasRow = async (appointmentId: string) => {
    const { rowCount } = await world.pool.query(
      `SELECT FROM ${READ_MODEL_SCHEMA}.appointment WHERE appointment_id = $1`,
      [appointmentId],
    );
    return rowCount === 1;
  };
  /** Inserts the progress of a replay into Postgres. Unless `isLost`, the log contains the request for the replay. */
  const insertReplay = async (progressAge: string, isLost = false) => {
    const replayId = isLost ? randomUUID() : await world.requestReplays(endpoint);
    await world.pool.query(
      `INSERT INTO webhooks.replay (replay_id, not_replayed_count, outcome, updated_at)
       VALUES ($1, 7, 'completed', now() - $2::interval)`,
      [replayId, progressAge],
    );
    return replayId;
  };
  const readWrittenState = async () => {
    const { rows } = await world.pool.query(
      `SELECT (SELECT to_jsonb(c) FROM ${READ_MODEL_SCHEMA}.checkpoint c) AS read_models,
              (SELECT jsonb_agg(to_jsonb(c) ORDER BY name) FROM webhooks.checkpoint c) AS checkpoints,
              (SELECT jsonb_agg(to_jsonb(d) ORDER BY delivery_id) FROM webhooks.delivery d) AS deliveries`,
    );
    return rows[0];
  };

  it("roles stop even if a restored log extends past the checkpoint, and continue after an operator runs `adopt`", async () => {
    await awaitDelivery((await requestAppointment()).eventId);
    await service.stop();
    await replaceLog((logDir) => copy(logDir, join(logDir, backupPath)));
    service = await startRoles();
    const lostAppointment = await requestAppointment();
    await awaitDelivery(lostAppointment.eventId);
    await awaitReadiness();
    // With earlier checkpoints, the roles would not notice that the log was restored, and would continue.
    await eventually(
      "the checkpoint",
      async () => (await readWebhookCheckpoint(world.pool, "deliveries")).eventId === lostAppointment.eventId,
    );
    await service.stop();
    await replaceLog(restoreBackup);
    const storedAppointment = await requestAppointment();
    for (let count = 0; count < 10; count += 1) await requestAppointment();
    const storedReplayId = await insertReplay("-1 hour");
    // The second replay has no request, and the request of the third was repeated after the log was restored.
    const lostReplayIds = [await insertReplay("1 hour", true), await insertReplay("1 hour")];
    const stateBefore = await readWrittenState();

    service = await startRoles();
    await awaitStop();
    // The log line of a role may arrive after the role's status.
    const fatalLines = await eventually("all roles log it", () => {
      const texts = logs.text().split("\n");
      const lines = texts.filter((text) => text.includes('"fatal"')).map((text): LogLine => JSON.parse(text));
      return new Set(lines.map(({ role }) => role)).size === ROLES.split(",").length && lines;
    });
    for (const { error } of fatalLines)
      expect(error?.message).to.match(/, but the log holds (event [0-9a-f-]{36}|no event) there\./);
    for (const role of ROLES.split(",")) {
      const failedGauge = `projection_failed{role="${role}"}`;
      await eventually(failedGauge, async () => (await service.readGauge(failedGauge)) === 1);
    }
    expect((await run("verify")).stderr).to.contain("The event log is not the one that this database was built from: ");
    const status = JSON.parse(await readStatus("--json"));
    expect(status.differentLog).to.match(/^The event log is not the one that this database was built from: /);
    expect(status.followers.map(({ lag }: { lag: unknown }) => lag)).to.deep.equal([null, null]);
    expect(await readWrittenState()).to.deep.equal(stateBefore);

    await world.pool.query("UPDATE audit.checkpoint SET position = 7, leaf_count = 1, leaf_position = 7");
    await world.pool.query("UPDATE webhooks.delivery SET replay_position = 1000000000000");
    expect((await adoptLog()).code).to.equal(0);
    const replayed = await world.pool.query("SELECT FROM webhooks.delivery WHERE replay_position IS NOT NULL");
    expect(replayed.rowCount).to.equal(0);
    const indexCheckpoint = await world.pool.query("SELECT position, leaf_position FROM audit.checkpoint");
    expect(indexCheckpoint.rows).to.deep.equal([{ position: -1n, leaf_position: null }]);
    const nextAppointment = await requestAppointment();
    await awaitDelivery(nextAppointment.eventId);
    expect(await hasRow(storedAppointment.appointmentId)).to.equal(true);
    expect(await hasRow(lostAppointment.appointmentId)).to.equal(false);
    // Partners receive no events that were already in the log when the operator ran adopt-log.
    expect(await world.readDelivery(storedAppointment.eventId, endpoint)).to.equal(undefined);
    const { rows } = await world.pool.query<{ id: string }>(
      "SELECT replay_id AS id FROM webhooks.replay WHERE replay_id = ANY ($1) AND not_replayed_count = 7",
      [[storedReplayId, ...lostReplayIds]],
    );
    expect(rows).to.deep.equal([{ id: storedReplayId }]);
    await awaitReadiness();
    expect((await run("verify")).stdout).to.match(/: 0 differ$/m);
    expect(await adoptLog()).to.deep.include({
      code: 3,
      stderr:
        "projection: This database was built from this event log, so there is nothing to adopt. Run rebuild without --adopt-log.\n",
    });
  });

  it("roles stop if the log is unrelated to the database, and continue after an operator runs `adopt`", async () => {
    await awaitDelivery((await requestAppointment()).eventId);
    await awaitReadiness();
    await replaceLog((logDir) => rm(logDir, { recursive: true }));
    await awaitStop();
    expect(await readStatus()).to.match(/, but the log is empty\./);
    const otherEndpoint = await eventually("an endpoint", () =>
      world.registerEndpoint(receiver.url).catch(() => undefined),
    );
    const earlyAppointment = await requestAppointment(otherEndpoint.clinicId);
    await awaitStop();
    expect((await adoptLog()).code).to.equal(0);
    const next = await requestAppointment(otherEndpoint.clinicId);
    await awaitDelivery(next.eventId, otherEndpoint);
    expect(await hasRow(earlyAppointment.appointmentId)).to.equal(true);
    const { rows } = await world.pool.query(`SELECT endpoint_id FROM ${READ_MODEL_SCHEMA}.webhook_endpoint`);
    expect(rows).to.deep.equal([{ endpoint_id: otherEndpoint.endpointId }]);
    await awaitReadiness();
  });

  it("roles that stopped because the log is empty continue when the original log is back", async () => {
    await awaitDelivery((await requestAppointment()).eventId);
    await awaitReadiness();
    await replaceLog(async (logDir) => {
      await copy(logDir, join(logDir, backupPath));
      await rm(logDir, { recursive: true });
    });
    await awaitStop();
    await replaceLog(restoreBackup);
    const { eventId, appointmentId } = await requestAppointment();
    await awaitDelivery(eventId);
    expect(await hasRow(appointmentId)).to.equal(true);
    await awaitReadiness();
  });

  it("the disabling of an endpoint is not recorded in a different log", async () => {
    receiver.setDefaultReaction({ status: 410 });
    const { eventId } = await requestAppointment();
    const readEndpointStream = () => world.log.read(`webhookEndpoint-${endpoint.endpointId}`).catch(() => []);
    await world.awaitStatus(eventId, endpoint, "failed");
    await eventually(
      "the appended event",
      async () => (await readEndpointStream()).at(-1)?.type === "WebhookEndpointDisabled",
    );
    await awaitReadiness();
    await replaceLog((logDir) => rm(logDir, { recursive: true }));
    await insertFailingEndpoint(world.pool, endpoint.endpointId, { isGone: true });
    await awaitStop();
    expect(await readEndpointStream()).to.deep.equal([]);
    const countFailing = async () => (await world.pool.query("SELECT FROM webhooks.failing_endpoint")).rowCount;
    expect(await countFailing()).to.equal(1);
    await service.stop();
    expect((await adoptLog()).stdout).to.match(/ \d+ pending deliveries\. They were cancelled\.$/m);
    expect(await countFailing()).to.equal(0);
  });

  it("a rebuild starts from the beginning if the tables of an interrupted rebuild come from another log", async () => {
    const { eventId, appointmentId } = await requestAppointment();
    await awaitDelivery(eventId);
    await world.pool.query(buildTablesDdl(readModels, NEXT_SCHEMA));
    await world.pool.query(`UPDATE ${NEXT_SCHEMA}.checkpoint SET position = 2, event_id = $1`, [randomUUID()]);
    expect((await run("rebuild")).code).to.equal(0);
    expect(await hasRow(appointmentId)).to.equal(true);
    expect((await run("verify")).stdout).to.match(/: 0 differ$/m);
  });
});
