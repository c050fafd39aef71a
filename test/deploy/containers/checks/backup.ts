import { appendFileSync, cpSync, readdirSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { READ_MODEL_SCHEMA } from "../../../../shared/postgres/read-model-schema.ts";
import { eventually } from "../../../support/eventually.ts";
import { run } from "../../process.ts";
import { check } from "../../report.ts";
import type { Engine } from "../engine.ts";
import type { Installation } from "../installation.ts";
import type { Partner } from "../onboard.ts";

/**
 * Backs up the installation, deletes it with all its data, and restores it, as docs/operations/backup.md describes.
 *
 * @param program path or name of docker-compose
 */
export async function checkBackup(
  engine: Engine,
  installation: Installation,
  partner: Partner,
  program: string,
): Promise<void> {
  const { compose, tryCompose, folder } = installation;
  const exec = (service: string, ...args: string[]) => compose(["exec", "-T", service, ...args]);
  const listBackups = () => readdirSync(path.join(folder, "backups")).filter((name) => name.endsWith("Z"));
  const query = (sql: string) => exec("postgres", "psql", "-U", "postgres", "-At", "-c", sql, "clinic");
  const readMetrics = "fetch('http://127.0.0.1:8080/metrics').then((r) => r.text()).then(console.log)";
  const restore = (name: string) =>
    run("./restore.sh", [name], {
      env: { ...engine.env, PATH: `${path.dirname(program)}:${process.env.PATH}` },
      cwd: folder,
      timeoutMs: 900_000,
    });
  let name = "";
  let kept = "";
  let keyCount = "";

  await check("the container backup makes the first backup by itself, and its success is a metric", async () => {
    const startedAt = Date.now() / 1000;
    await compose(["--profile", "backup", "up", "--detach", "--no-deps", "backup"]);
    await eventually("the first backup", () => listBackups().length > 0, 120_000);
    await eventually("the metric", async () => {
      const metrics = await exec("projection", "node", "-e", readMetrics);
      const [, value] = /^task_last_success_timestamp_seconds\{task="backup"\} (\S+)$/m.exec(metrics) ?? [];
      return Number(value) >= Math.floor(startedAt);
    });
  });

  await check("a backup under load contains everything that was acknowledged before", async () => {
    const created = await partner.createAppointment("before-the-backup");
    expect(created.status, created.body).to.equal(201);
    kept = created.body;
    const load = Array.from({ length: 20 }, (_, index) => partner.createAppointment(`during-the-backup-${index}`));
    const output = await exec("backup", "bash", "/usr/local/bin/backup", "now");
    await Promise.all(load);
    name = listBackups().at(-1) ?? "";
    keyCount = await query("SELECT count(*) FROM data_keys.data_key");
    expect((await partner.createAppointment("after-the-backup")).status).to.equal(201);
    return output;
  });

  await check("a restore into a running installation is refused", async () => {
    const { code, output } = await restore(name);
    expect(code, output).to.equal(1);
    expect(output).to.contain("needs an empty one");
  });

  await check("`down` with all profiles removes all containers and volumes", async () => {
    await compose(["--profile", "monitoring", "up", "--detach", "--no-deps", "prometheus"]);
    await compose(["--profile", "*", "down", "--volumes"], { timeoutMs: 300_000 });
    expect(await engine.podman(["ps", "--all", "--quiet"])).to.equal("");
    expect(await engine.podman(["volume", "ls", "--quiet"])).to.equal("");
  });

  await check("a restore of a changed backup is refused, and changes nothing", async () => {
    cpSync(path.join(folder, "backups", name), path.join(folder, "backups/changed"), { recursive: true });
    appendFileSync(path.join(folder, "backups/changed/postgres.dump"), " ");
    const { code, output } = await restore("changed");
    expect(code, output).to.equal(1);
    expect(output).to.contain("postgres.dump: FAILED");
  });

  await check("a restore into an empty installation brings back all data, also personal data", async () => {
    await tryCompose(["--profile", "*", "down", "--volumes"], { timeoutMs: 300_000 });
    const startedAt = Date.now();
    const { code, output } = await restore(name);
    const seconds = Math.round((Date.now() - startedAt) / 1000);
    expect(code, output).to.equal(0);
    expect(output).to.match(/\b0 differ/);
    await installation.waitUntilReady();
    const repeated = await partner.createAppointment("before-the-backup");
    expect(JSON.parse(repeated.body)).to.deep.equal(JSON.parse(kept));
    expect(await query("SELECT count(*) FROM data_keys.data_key")).to.equal(keyCount);
    // The read models of the backup do not prove that the events can be decrypted.
    await installation.clinic("projection", "rebuild");
    expect(await query(`SELECT full_name FROM ${READ_MODEL_SCHEMA}.customer`)).to.equal("Ada Example");
    return `${seconds} s`;
  });
}
