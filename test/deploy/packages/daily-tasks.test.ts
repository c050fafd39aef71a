import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { expect } from "chai";
import pg from "pg";
import { pino } from "pino";
import { ensureEmbeddedDatabase } from "../../../deploy/local/servers/database-roles.ts";
import { buildSuperuserUrl, preparePostgres } from "../../../deploy/local/servers/postgres.ts";
import { openLocalRoot } from "../../../deploy/local/setup/local-root.ts";
import { prepareDatabase } from "../../../projection/prepare-database.ts";
import { measureTasks } from "../../../projection/status/facts.ts";
import { eventually } from "../../support/eventually.ts";
import { findFreePort } from "../../support/free-ports.ts";
import { makeTestRoot } from "../../support/stack.ts";

const deployFolder = fileURLToPath(new URL("../../../deploy", import.meta.url));
const configPath = join(deployFolder, "machines/postgresql.conf");

describe("the archive of WAL and the daily tasks", () => {
  let archiveFolder: string;
  let walFolder: string;
  let syncLog: string;
  let admin: pg.Pool;
  let pool: pg.Pool;
  let stop: () => Promise<void>;

  before(async () => {
    const folder = mkdtempSync(join(tmpdir(), "wal-archive-"));
    archiveFolder = join(folder, "wal");
    syncLog = join(folder, "sync.log");
    mkdirSync(archiveFolder);
    writeFileSync(syncLog, "");
    writeFileSync(join(folder, "sync"), `#!/bin/sh\necho "$@" >> ${syncLog}\n`);
    for (const path of [folder, archiveFolder, syncLog, join(folder, "sync")]) chmodSync(path, 0o777);
    const root = await openLocalRoot(makeTestRoot());
    const port = await findFreePort();
    const { superuser } = root.secrets.postgres;
    const component = await preparePostgres(
      { ...root, log: (line) => process.stderr.write(`${line}\n`) },
      { port, password: superuser, isEphemeral: true },
    );
    const archiveSettings = readFileSync(configPath, "utf8").match(/^archive_.*$/gm) ?? [];
    const settingsText = archiveSettings.join("\n").replaceAll("/var/backups/clinic/wal", archiveFolder);
    appendFileSync(join(root.paths.postgres, "postgresql.auto.conf"), `${settingsText}\n`);
    walFolder = join(root.paths.postgres, "pg_wal");
    const { PATH } = process.env;
    process.env.PATH = `${folder}:${PATH}`;
    await component.start();
    process.env.PATH = PATH;
    admin = new pg.Pool({ connectionString: buildSuperuserUrl(port, superuser), max: 1 });
    const urls = await ensureEmbeddedDatabase(buildSuperuserUrl(port, superuser), "clinic", root.secrets.postgres);
    pool = new pg.Pool({ connectionString: urls.projection, max: 1 });
    await prepareDatabase(urls.projection, pool, pino({ enabled: false }));
    stop = async () => {
      await Promise.all([admin.end(), pool.end()]);
      await component.kill();
      root.release();
    };
  });
  after(() => stop());

  const readArchiver = async () => (await admin.query("SELECT * FROM pg_stat_archiver")).rows[0];

  /** Makes Postgres archive a file a second time, as after a crash before it recorded the first time. */
  function archiveAgain(name: string): void {
    const statusFile = join(walFolder, "archive_status", name);
    renameSync(`${statusFile}.done`, `${statusFile}.ready`);
  }

  async function archiveNextFile(): Promise<string> {
    const { archived_count: count } = await readArchiver();
    await admin.query(
      "CREATE TABLE IF NOT EXISTS note (id integer); INSERT INTO note VALUES (1); SELECT pg_switch_wal()",
    );
    return eventually("the next file is archived", async () => {
      const { archived_count, last_archived_wal } = await readArchiver();
      return Number(archived_count) > Number(count) && last_archived_wal;
    });
  }

  async function measure(): Promise<{ archivedAt: number; succeededAt: Record<string, number | undefined> }> {
    const tasks = Object.fromEntries((await measureTasks(pool)).map(({ task, seconds }) => [task, seconds]));
    return {
      archivedAt: tasks.archive ?? Number.NaN,
      succeededAt: { backup: tasks.backup, retention: tasks.retention },
    };
  }

  it("Postgres archives a file again if the content is the same, and flushes it, but never overwrites other content", async () => {
    const firstName = await archiveNextFile();
    expect(readdirSync(archiveFolder)).to.include(`${firstName}.gz`);
    const flushedFiles = readFileSync(syncLog, "utf8").trimEnd().split("\n");
    expect(flushedFiles.slice(-2)).to.deep.equal([
      join(archiveFolder, `${firstName}.gz.part`),
      `${join(archiveFolder, `${firstName}.gz`)} ${archiveFolder}`,
    ]);
    archiveAgain(firstName);
    await archiveNextFile();
    expect(await readArchiver()).to.include({ failed_count: "0" });

    const { archivedAt } = await measure();
    expect(archivedAt).to.be.within(Date.now() / 1_000 - 60, Date.now() / 1_000 + 1);
    const otherContent = gzipSync("other content");
    writeFileSync(join(archiveFolder, `${firstName}.gz`), otherContent);
    archiveAgain(firstName);
    await admin.query("SELECT pg_switch_wal()");
    await eventually("the archiving fails", async () => Number((await readArchiver()).failed_count) > 0);
    expect(readFileSync(join(archiveFolder, `${firstName}.gz`))).to.deep.equal(otherContent);
    const { last_archived_time, last_failed_time } = await readArchiver();
    expect((await measure()).archivedAt * 1_000).to.be.closeTo(last_archived_time.getTime(), 1);
    expect(last_failed_time).to.be.above(last_archived_time);
  });

  it("the metrics show when backup and retention last succeeded, and count the set-up as a success", async () => {
    const { succeededAt } = await measure();
    expect(succeededAt.retention).to.be.within(Date.now() / 1_000 - 60, Date.now() / 1_000 + 1);
    for (const file of ["container/backup.sh", "machines/backup.sh", "kubernetes/backup/backup.yaml"]) {
      const text = readFileSync(join(deployFolder, file), "utf8");
      const [, statement = ""] = /"(UPDATE projection\.task_success [^"]*)"/.exec(text) ?? [];
      await pool.query("UPDATE projection.task_success SET succeeded_at = '2026-01-01T00:00:00Z'");
      await pool.query(statement);
      const changedTimes = (await measure()).succeededAt;
      expect(changedTimes.backup, file).to.be.above(succeededAt.backup ?? 0);
      expect(changedTimes.retention).to.equal(Date.parse("2026-01-01T00:00:00Z") / 1_000);
    }
  });
});
