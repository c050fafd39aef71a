/**
 * The restore drill of docs/operations/backup.md: restores an older Postgres, a lost Postgres, an older log, and all
 * servers. All backups are made while the servers run. Personal data is encrypted.
 */

import { randomUUID } from "node:crypto";
import { copyFile, realpath } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "chai";
import { ensureEmbeddedDatabase, withClient } from "../../deploy/local/servers/database-roles.ts";
import { DIFFERENT_LOG } from "../../projection/checkpoints/same-log.ts";
import { ERASED_TEXT } from "../../shared/domain/personal-data/declaration.ts";
import { connectEventStore } from "../../shared/eventstore/connect.ts";
import { readLogEnd } from "../../shared/eventstore/read-log.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { runAuditCommand } from "../command/audit/cli-terminal.ts";
import { backUpLog, backUpPostgres, dumpDataKeys, restoreDataKeys, restoreFolder } from "../support/backups.ts";
import { eventually } from "../support/eventually.ts";
import { makeTestRoot } from "../support/stack.ts";
import { listAcceptingLibraries, webhookLibraryNames } from "../support/webhook-libraries.ts";
import { NOTES, type Owner, type RestoreWorld, startRestoreWorld } from "./restore-world.ts";

/** If true, the tests are skipped, because tests must not stop external servers. */
const hasExternalServers = ["EVENTSTORE_URL", "DATABASE_URL", "NATS_URL"].some((name) => process.env[name]);

/** Line of `status` about a process that has stopped. */
const STOPPED_PROCESS_PATTERN = /^ {2}process {6}\S+ stopped: the event log is not the one/m;

(hasExternalServers ? describe.skip : describe)("a restore of backups", function () {
  this.timeout(300_000);
  let world: RestoreWorld;
  /** Customers: registered before all backups, or between the backups of Postgres and the log. */
  let keptOwner: Owner;
  let laterOwner: Owner;
  /** Customers of before all backups: erased before and after the backups. */
  let erasedOwner: Owner;
  let laterErasedOwner: Owner;
  /** Appointment of `keptOwner` before all backups. Its webhook is delivered before all backups. */
  let deliveredId: string;
  /** Appointment of `laterErasedOwner` before all backups. Its webhook is not delivered before the backups. */
  let pendingId: string;
  /** Appointment of `laterOwner` that the backup of the log contains and the backup of Postgres lacks. */
  let laterId: string;
  /** Appointment after all backups. */
  let latestId: string;
  const latestKey = `restore-${randomUUID()}`;
  let latestCreatedAt: string;
  let exportEnd: string;
  let exportChain: string;
  const backupRoot = makeTestRoot();
  const backups = {
    log: join(backupRoot, "log"),
    postgres: join(backupRoot, "postgres"),
    secrets: join(backupRoot, "secrets.json"),
    version: join(backupRoot, "version"),
    auditExport: join(backupRoot, "export.ndjson"),
  };

  before(async () => {
    world = await startRestoreWorld();
    const { servers } = world.getStack();
    const { paths } = servers.root;
    [keptOwner, erasedOwner, laterErasedOwner] = [
      await world.registerOwner("Ben Ek"),
      await world.registerOwner("Cem Ari"),
      await world.registerOwner("Dora Fu"),
    ];
    deliveredId = await world.createAppointment(keptOwner.animalId);
    await world.awaitDeliveryStatus(deliveredId, "delivered");
    world.receiver.setDefaultReaction({ status: 500 });
    pendingId = await world.createAppointment(laterErasedOwner.animalId);
    await world.awaitWebhook(pendingId);
    await world.eraseCustomer(erasedOwner.customerId);
    await backUpPostgres(servers.adminDatabaseUrl, await realpath(paths.postgres), backups.postgres);
    world.receiver.setDefaultReaction({});
    laterOwner = await world.registerOwner("Eva Gal");
    laterId = await world.createAppointment(laterOwner.animalId);
    await world.awaitDeliveryStatus(laterId, "delivered");
    await copyFile(paths.secrets, backups.secrets);
    await copyFile(paths.version, backups.version);
    await backUpLog(paths.eventstore, backups.log);
    await dumpDataKeys(servers.databaseUrls.projection, backupRoot);
    exportEnd = new Date().toISOString();
    exportChain = await world.exportClinic(backups.auditExport, exportEnd);
    latestCreatedAt = new Date().toISOString();
    latestId = await world.createAppointment(undefined, latestKey);
    for (const id of [latestId, pendingId]) await world.awaitDeliveryStatus(id, "delivered");
    await world.eraseCustomer(laterErasedOwner.customerId);
  });

  after(() => world?.stop());

  const listShownIds = async () => [...(await world.listNotes()).keys()];
  /** Returns all data that the projection service writes, and the end of the log. */
  const readWrittenData = async () => {
    const { rows } = await world.query(
      `SELECT (SELECT to_jsonb(c) FROM ${READ_MODEL_SCHEMA}.checkpoint c) AS read_models,
              (SELECT to_jsonb(c) FROM webhooks.relay_checkpoint c) AS relay,
              (SELECT count(*) FROM ${READ_MODEL_SCHEMA}.appointment) AS appointments,
              (SELECT jsonb_agg(to_jsonb(d) ORDER BY d.delivery_id) FROM webhooks.delivery d) AS deliveries,
              (SELECT jsonb_agg(to_jsonb(p) ORDER BY p.delivery_id) FROM webhooks.pending_delivery p) AS pending,
              (SELECT count(*) FROM webhooks.attempt) AS attempts, (SELECT count(*) FROM webhooks.outbox) AS facts`,
    );
    const client = connectEventStore(world.getServers().eventstoreUrl, "test");
    const logEnd = await readLogEnd(client).finally(() => client.dispose());
    return { ...rows[0], end: logEnd, requests: world.receiver.requests.length };
  };
  /** Returns the names and notes that the portal shows, and the number of data keys of erased customers. */
  const readPersonalData = async () => {
    const [names, notes] = [await world.listCustomerNames(), await world.listNotes()];
    const erasedIds = [erasedOwner, laterErasedOwner].map(({ customerId }) => `'${customerId}'`);
    const { rows } = await world.query(
      `SELECT count(*)::integer AS count FROM data_keys.data_key
        WHERE destroyed_at IS NULL AND person_id IN (${erasedIds.join()})`,
    );
    const owners = [keptOwner, laterOwner, erasedOwner, laterErasedOwner];
    return {
      names: owners.map(({ customerId }) => names.get(customerId)),
      notes: [deliveredId, laterId, pendingId, latestId].map((id) => notes.get(id)),
      erasedKeys: rows[0].count,
    };
  };
  /** The personal data after a restore of the dump. The notes of `latestId` are lost, because their key is newer. */
  const RESTORED_DATA = {
    names: ["Ben Ek", "Eva Gal", ERASED_TEXT, ERASED_TEXT],
    notes: [NOTES, NOTES, null, null],
    erasedKeys: 0,
  };
  const ERASED_AGAIN_PATTERN = /; 3 data keys of earlier erasures destroyed again$/;

  it("if Postgres is restored from a backup that is older than the log, all data comes back, with the dump of the data keys", async () => {
    const { components, servers } = world.getStack();
    await world.withStoppedServices(async () => {
      await components.postgres.stop();
      await restoreFolder(backups.postgres, await realpath(servers.root.paths.postgres));
      await components.postgres.start();
      await restoreDataKeys(servers.databaseUrls.projection, backupRoot);
    }, ["projection", "queryApi"]);
    const ids = [deliveredId, pendingId, laterId, latestId];
    for (const id of ids) await world.awaitDeliveryStatus(id, "delivered");
    expect(await listShownIds()).to.have.members(ids);
    // Postgres had lost the outcomes of these deliveries, except the first.
    expect(world.countWebhooks(ids)).to.deep.equal([1, 2, 2, 2]);
    expect(await world.verify()).to.match(/: 0 differ$/m);
    await world.awaitReadiness();
    expect(await world.applyRetention()).to.match(ERASED_AGAIN_PATTERN);
    expect(await readPersonalData()).to.deep.equal(RESTORED_DATA);
  });

  it("if Postgres is lost, an operator restores all data from the log and the dump of the data keys, and chooses which webhooks are sent", async () => {
    const { adminDatabaseUrl, databaseUrls, root } = world.getStack().servers;
    await world.withStoppedServices(async () => {
      await withClient(adminDatabaseUrl, (client) => client.query("DROP DATABASE clinic"));
      await ensureEmbeddedDatabase(adminDatabaseUrl, "clinic", root.secrets.postgres);
      expect((await world.runProjection("migrate")).code).to.equal(0);
      await restoreDataKeys(databaseUrls.projection, backupRoot);
      const adoptResult = await world.runProjection("rebuild", "--adopt-log", "--tell-since", latestCreatedAt);
      expect(adoptResult.code, adoptResult.stderr).to.equal(0);
      expect(await world.applyRetention()).to.match(ERASED_AGAIN_PATTERN);
    }, ["projection", "command", "queryApi"]);
    const ids = [deliveredId, pendingId, laterId, latestId];
    await world.awaitDeliveryStatus(latestId, "delivered");
    expect(await listShownIds()).to.have.members(ids);
    expect(world.countWebhooks(ids)).to.deep.equal([1, 2, 2, 3]);
    expect((await world.query("SELECT FROM webhooks.delivery")).rowCount).to.equal(1);
    expect(await world.verify()).to.match(/: 0 differ$/m);
    await world.awaitReadiness();
    expect(await readPersonalData()).to.deep.equal(RESTORED_DATA);
  });

  it("if the log is restored from an older copy, the projection stops until an operator runs `adopt`", async () => {
    const { components, servers } = world.getStack();
    const { eventstore } = components;
    const dir = servers.root.paths.eventstore;
    const backupDir = join(backupRoot, "older-log");
    const keptAppointmentId = await world.createAppointment();
    await world.awaitWebhook(keptAppointmentId);
    world.receiver.setDefaultReaction({ status: 500 });
    const pendingAppointmentId = await world.createAppointment();
    await world.awaitAppointment(pendingAppointmentId);
    await world.awaitWebhook(pendingAppointmentId);
    await backUpLog(dir, backupDir);
    const lostAppointmentId = await world.createAppointment();
    await world.awaitAppointment(lostAppointmentId);
    await world.awaitWebhook(lostAppointmentId);

    await eventstore.stop();
    await restoreFolder(backupDir, dir);
    const restoredAt = new Date().toISOString();
    await eventstore.start();
    const stoppedText = `stopped: ${DIFFERENT_LOG}`;
    await eventually(
      "all roles stop",
      async () => {
        const { status, parts } = await world.readHealth();
        return status === 503 && Object.values(parts).every((part) => part?.startsWith(stoppedText));
      },
      30_000,
    );
    const dataBefore = await readWrittenData();
    const verifyResult = await world.runProjection("verify");
    // The processes report their status at intervals.
    const statusResult = await eventually("the status of the stopped process", async () => {
      const result = await world.runProjection("status");
      return STOPPED_PROCESS_PATTERN.test(result.stdout) ? result : undefined;
    });
    expect(verifyResult.code).to.equal(3);
    expect(verifyResult.stderr).to.match(
      /^projection: The event log is not the one that this database was built from: the read models stopped after event [0-9a-f-]{36} at position \d+, but the log ends at position \d+\. .* To continue with this log instead, run `clinic projection rebuild --adopt-log`\.\n$/,
    );
    expect(statusResult.stdout).to.match(/^The event log is not the one that this database was built from: /);
    expect((await world.runProjection("rebuild")).stderr).to.contain("The event log is not the one");
    // Nothing was written or sent while the commands ran.
    expect(await readWrittenData()).to.deep.equal(dataBefore);

    const earlyAppointmentId = await world.createAppointment();
    world.receiver.setDefaultReaction({});
    const rebuildResult = await world.runProjection("rebuild", "--adopt-log", "--tell-since", restoredAt);
    expect(rebuildResult.code, rebuildResult.stderr).to.equal(0);
    expect(rebuildResult.stdout).to.match(
      /^The relay continues after position \d+\. Webhooks for earlier events are not sent/m,
    );
    expect(rebuildResult.stdout).to.match(/^The log does not hold the events of 1 pending deliveries and /m);

    for (const id of [earlyAppointmentId, await world.createAppointment()]) {
      await world.awaitAppointment(id);
      await world.awaitWebhook(id);
    }
    await eventually(
      "the retry",
      async () => (await world.readDeliveryStatus(pendingAppointmentId)) === "delivered",
      30_000,
    );
    expect(await listShownIds())
      .to.include.members([keptAppointmentId, pendingAppointmentId, earlyAppointmentId])
      .and.not.include(lostAppointmentId);
    expect(await world.readDeliveryStatus(lostAppointmentId)).to.equal("cancelled");
    expect(world.countWebhooks([keptAppointmentId])).to.deep.equal([1]);
    await world.awaitReadiness();
    expect(await world.verify()).to.match(/: 0 differ$/m);
    const secondRebuildResult = await world.runProjection("rebuild", "--adopt-log");
    expect([secondRebuildResult.code, secondRebuildResult.stderr]).to.deep.equal([
      3,
      "projection: This database was built from this event log, so there is nothing to adopt. Run rebuild without --adopt-log.\n",
    ]);
  });

  it("if all servers are lost, backups of the log, Postgres and the keys restore the service on a new machine", async () => {
    const restoredIds = [deliveredId, pendingId, laterId];
    const root = makeTestRoot();
    const [deliveredCount = 0, pendingCount = 0, laterCount = 0] = world.countWebhooks(restoredIds);
    await world.moveTo(root, async () => {
      await copyFile(backups.secrets, join(root, "secrets.json"));
      await copyFile(backups.version, join(root, "version"));
      await restoreFolder(backups.log, join(root, "eventstore"));
      await restoreFolder(backups.postgres, join(root, "postgres"));
    });
    // The partner's token and the portal user's session are those from before the loss.
    for (const id of [pendingId, laterId]) await world.awaitDeliveryStatus(id, "delivered");
    expect(await listShownIds()).to.have.members(restoredIds);
    expect(world.countWebhooks(restoredIds)).to.deep.equal([deliveredCount, pendingCount + 1, laterCount + 1]);
    // Without the dump, later data keys are missing. The backup of the log lacks the later erasure.
    expect(await readPersonalData()).to.deep.include({
      names: ["Ben Ek", ERASED_TEXT, ERASED_TEXT, "Dora Fu"],
      notes: [NOTES, null, NOTES, undefined],
    });
    // The backup lacks the latest appointment, so the same request creates it again.
    expect(await world.createAppointment(undefined, latestKey)).to.equal(latestId);
    await world.awaitDeliveryStatus(latestId, "delivered");
    const webhook = world.listWebhooks(latestId).at(-1)!;
    expect(listAcceptingLibraries(world.endpointSecret, webhook)).to.deep.equal(webhookLibraryNames);
    expect(await world.exportClinic(join(backupRoot, "new-export.ndjson"), exportEnd)).to.equal(exportChain);
    const { output: thumbprint } = await runAuditCommand(["keys", "--thumbprint"], { env: world.getStack().env.audit });
    const verifyArgs = ["verify", backups.auditExport, "--key", thumbprint.trim(), "--clinic", world.clinicId];
    expect((await runAuditCommand(verifyArgs)).code).to.equal(0);
    expect(await world.verify()).to.match(/: 0 differ$/m);
  });
});
