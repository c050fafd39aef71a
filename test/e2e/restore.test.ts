/**
 * The restore drill in docs/operations/backup.md. Restores an older Postgres, a lost Postgres, an older log, and all
 * servers. Backups are made while the servers run. Personal data is encrypted.
 */

import { randomUUID } from "node:crypto";
import { copyFile, realpath } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "chai";
import { ensureEmbeddedDatabase, withClient } from "../../deploy/local/servers/database-roles.ts";
import { DIFFERENT_LOG } from "../../projection/checkpoints/same-log.ts";
import { ERASED_TEXT } from "../../shared/domain/personal-data/declaration.ts";
import { runAuditCommand } from "../command/audit/cli-terminal.ts";
import { backUpLog, backUpPostgres, dumpDataKeys, restoreDataKeys, restoreFolder } from "../support/backups.ts";
import { eventually } from "../support/eventually.ts";
import { makeTestRoot } from "../support/stack.ts";
import { listAcceptingLibraries, webhookLibraryNames } from "../support/webhook-libraries.ts";
import { NOTES, type Owner, type RestoreWorld, startRestoreWorld } from "./restore-world.ts";

/** If true, the tests are skipped, because tests must not stop external servers. */
const hasExternalServers = ["EVENTSTORE_URL", "DATABASE_URL", "NATS_URL"].some((name) => process.env[name]);

(hasExternalServers ? describe.skip : describe)("a restore of backups", function () {
  this.timeout(300_000);
  let world: RestoreWorld;
  /**
   * Customers. `keptOwner` is registered before all backups, and `laterOwner` between those of Postgres and the log.
   */
  let keptOwner: Owner;
  let laterOwner: Owner;
  /**
   * Customers registered before all backups. `erasedOwner` is erased before the backups, `laterErasedOwner` after them.
   */
  let erasedOwner: Owner;
  let laterErasedOwner: Owner;
  /** Appointment of `keptOwner`, requested and delivered as a webhook before all backups. */
  let deliveredId: string;
  /** Appointment of `laterErasedOwner`, requested before all backups. Its webhook is still pending in the backups. */
  let pendingId: string;
  /** Appointment of `laterOwner`. The log's backup contains it, and the Postgres backup does not. */
  let laterId: string;
  /** Appointment after all backups. */
  let latestId: string;
  const latestKey = `restore-${randomUUID()}`;
  let latestCreatedAt: string;
  let exportEnd: string;
  let exportRoot: string;
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
    exportRoot = await world.exportClinic(backups.auditExport, exportEnd);
    latestCreatedAt = new Date().toISOString();
    latestId = await world.createAppointment(undefined, latestKey);
    for (const id of [latestId, pendingId]) await world.awaitDeliveryStatus(id, "delivered");
    await world.eraseCustomer(laterErasedOwner.customerId);
  });

  const listShownIds = async () => [...(await world.listNotes()).keys()];
  /** Returns the names and notes in the portal, and the number of remaining data keys of erased customers. */
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
  /**
   * Expected result of `readPersonalData` after a restore of the data keys. The notes of `latestId` are unreadable,
   * because their key is newer than the backup.
   */
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
    const createSentAppointment = async () => {
      const id = await world.createAppointment();
      await world.awaitAppointment(id);
      await world.awaitWebhook(id);
      return id;
    };
    const keptId = await createSentAppointment();
    world.receiver.setDefaultReaction({ status: 500 });
    const unsentId = await createSentAppointment();
    const backupDir = join(backupRoot, "older-log");
    await backUpLog(servers.root.paths.eventstore, backupDir);
    const lostId = await createSentAppointment();
    await components.eventstore.stop();
    await restoreFolder(backupDir, servers.root.paths.eventstore);
    const restoredAt = new Date().toISOString();
    await components.eventstore.start();
    await eventually("all roles stop", async () => {
      const { status, parts } = await world.readHealth();
      return status === 503 && Object.values(parts).every((part) => part?.startsWith(`stopped: ${DIFFERENT_LOG}`));
    });
    const verifyResult = await world.runProjection("verify");
    expect(verifyResult.code).to.equal(3);
    expect(verifyResult.stderr).to.match(
      /^projection: The event log is not the one that this database was built from: the read models stopped after event [0-9a-f-]{36} at position \d+, but the log ends at position \d+\. .* To continue with this log instead, run `clinic projection rebuild --adopt-log`\.\n$/,
    );
    // The processes report their status at intervals.
    await eventually("the status of the stopped process", async () =>
      /^The event log is not .*^ {2}process {6}\S+ stopped: the event log is not the one/ms.test(
        (await world.runProjection("status")).stdout,
      ),
    );
    expect((await world.runProjection("rebuild")).stderr).to.contain("The event log is not the one");

    const earlyId = await world.createAppointment();
    world.receiver.setDefaultReaction({});
    const { code, stdout, stderr } = await world.runProjection("rebuild", "--adopt-log", "--tell-since", restoredAt);
    expect(code, stderr).to.equal(0);
    expect(stdout).to.match(/^Webhooks continue after position \d+\. Those for earlier events are not sent/m);
    expect(stdout).to.match(/^The log does not hold the events of 1 pending deliveries\. They were cancelled\.$/m);
    for (const id of [unsentId, earlyId, await world.createAppointment()])
      await world.awaitDeliveryStatus(id, "delivered");
    expect(await listShownIds())
      .to.include.members([keptId, unsentId, earlyId])
      .and.not.include(lostId);
    expect(await world.readDeliveryStatus(lostId)).to.equal("cancelled");
    expect(world.countWebhooks([keptId])).to.deep.equal([1]);
    await world.awaitReadiness();
    expect(await world.verify()).to.match(/: 0 differ$/m);
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
    expect(await world.exportClinic(join(backupRoot, "new-export.ndjson"), exportEnd)).to.equal(exportRoot);
    const { output: thumbprint } = await runAuditCommand(["keys", "--thumbprint"], { env: world.getStack().env.audit });
    const verifyArgs = ["verify", backups.auditExport, "--key", thumbprint.trim(), "--clinic", world.clinicId];
    expect((await runAuditCommand(verifyArgs)).code).to.equal(0);
    expect(await world.verify()).to.match(/: 0 differ$/m);
  });
});
