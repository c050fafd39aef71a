import { spawn } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { expect } from "chai";
import pg from "pg";
import { withClient } from "../../../../deploy/local/servers/database-roles.ts";
import { buildNodeCommand } from "../../../../deploy/local/setup/project.ts";
import { createDataKeyStore, destroyKeysOf } from "../../../../shared/personal-data/data-key-store.ts";
import type { DataKeyOwner } from "../../../../shared/personal-data/data-keys.ts";
import { createMasterKeys } from "../../../../shared/personal-data/master-keys.ts";
import { rotateDataKeys } from "../../../../shared/personal-data/rotate-data-keys.ts";
import { eventually } from "../../../support/eventually.ts";
import { createMigratedDatabase } from "../../../support/migrated-database.ts";
import { useResource } from "../../../support/resources.ts";
import { runClinic } from "../terminal.ts";

const newMasterKey = () => randomBytes(32).toString("base64");

describe("clinic data-keys rotate", () => {
  const keys = { former: newMasterKey(), next: newMasterKey() };
  const formerConfig = { current: "former", keys };
  const nextConfig = { current: "next", keys };
  const database = useResource(createMigratedDatabase);
  let pool: pg.Pool;

  before(async () => {
    pool = new pg.Pool({ connectionString: database.urls.command, max: 2 });
  });
  after(async () => {
    await pool.end();
  });
  afterEach(async () => {
    await withClient(database.urls.projection, (client) => client.query("TRUNCATE data_keys.data_key"));
  });

  async function createKeys(count: number) {
    const owners = Array.from(
      { length: count },
      (): DataKeyOwner => ({ person: { type: "customer", id: randomUUID() }, category: "contact" }),
    );
    return createDataKeyStore(pool, createMasterKeys(formerConfig)).getOrCreate(owners);
  }
  const nextOnly = createMasterKeys({ current: "next", keys: { next: keys.next } });
  const readWithNextOnly = (ids: string[]) => createDataKeyStore(pool, nextOnly).find(ids);
  async function listUnusable(ids: string[], masterKeys = nextOnly): Promise<string[]> {
    const foundKeys = await createDataKeyStore(pool, masterKeys).find(ids);
    return ids.filter((id) => !(foundKeys.get(id) instanceof Buffer));
  }
  const runRotation = (config: object) =>
    runClinic(["data-keys", "rotate"], {
      env: { DATABASE_URL: database.urls.command, PERSONAL_DATA_KEYS: JSON.stringify(config) },
    });

  it("after a rotation, all keys can be read with only the current master key", async () => {
    const dataKeys = await createKeys(1_100);
    const { code, outputLines } = await runRotation(nextConfig);
    expect({ code, outputLines }).to.deep.equal({
      code: 0,
      outputLines: ["data-keys rotate: wrapped 1100 keys with the master key next; no key needs another master key"],
    });
    const foundKeys = await readWithNextOnly(dataKeys.map(({ id }) => id));
    expect(dataKeys.every(({ id, key }) => key.equals(foundKeys.get(id) as Buffer))).to.equal(true);
    expect((await runRotation(nextConfig)).outputLines[0]).to.contain("wrapped 0 keys");
  });

  it("a rotation that ends in the middle leaves every key readable, and is continued", async () => {
    const dataKeys = await createKeys(25);
    const rotation = rotateDataKeys(pool, createMasterKeys(nextConfig), 10);
    expect((await rotation.next()).value).to.deep.equal({ rewrapped: 0, found: 25 });
    expect((await rotation.next()).value).to.deep.equal({ rewrapped: 10, found: 25 });
    const ids = dataKeys.map(({ id }) => id);
    expect(await listUnusable(ids, createMasterKeys(formerConfig))).to.deep.equal([]);
    const { outputLines } = await runRotation(nextConfig);
    expect(outputLines[0]).to.contain("wrapped 15 keys");
    expect(await listUnusable(ids)).to.deep.equal([]);
  });

  it("a rotation does not restore a key that is destroyed meanwhile", async () => {
    const [dataKey] = await createKeys(1);
    const { rows } = await pool.query("SELECT person_id FROM data_keys.data_key");
    const rotation = rotateDataKeys(pool, createMasterKeys(nextConfig));
    await rotation.next();
    await destroyKeysOf(pool, { type: "customer", id: rows[0].person_id }, null);
    expect((await rotation.next()).value).to.deep.equal({ rewrapped: 0, found: 0 });
    expect((await rotation.next()).done).to.equal(true);
    expect([...(await readWithNextOnly([dataKey!.id])).values()]).to.deep.equal(["destroyed"]);
  });

  it("keys that other processes create during a rotation are wrapped, too", async () => {
    const ids = (await createKeys(25)).map(({ id }) => id);
    const rotation = rotateDataKeys(pool, createMasterKeys(nextConfig), 10);
    await rotation.next();
    await rotation.next();
    ids.push(...(await createKeys(50)).map(({ id }) => id));
    let lastProgress: unknown;
    for await (lastProgress of rotation);
    expect(lastProgress).to.deep.equal({ rewrapped: 75, found: 75 });
    expect(await listUnusable(ids)).to.deep.equal([]);
  });

  it("a rotation ends and reports the keys that need another master key while a process keeps creating such keys", async () => {
    await createKeys(30);
    // Each wrapped batch creates another key with the former master key.
    await withClient(database.urls.projection, (client) =>
      client.query(`CREATE TABLE data_keys.spare AS SELECT * FROM data_keys.data_key LIMIT 29;
        DELETE FROM data_keys.data_key WHERE id IN (SELECT id FROM data_keys.spare);
        CREATE FUNCTION data_keys.add_key() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
          WITH moved AS (DELETE FROM data_keys.spare WHERE id = (SELECT id FROM data_keys.spare LIMIT 1) RETURNING *)
          INSERT INTO data_keys.data_key SELECT * FROM moved; RETURN NULL; END $$;
        CREATE TRIGGER add_key AFTER UPDATE ON data_keys.data_key EXECUTE FUNCTION data_keys.add_key()`),
    );
    const { code, outputLines } = await runRotation(nextConfig);
    await withClient(database.urls.projection, (client) =>
      client.query("DROP FUNCTION data_keys.add_key CASCADE; DROP TABLE data_keys.spare"),
    );
    expect(code).to.equal(1);
    expect(outputLines[0]).to.match(/; keys that need another master key: 1; restart the processes that use it/);
  });

  it("a key that cannot be used is named, and all other keys are wrapped", async () => {
    const ids = (await createKeys(3)).map(({ id }) => id);
    await pool.query("UPDATE data_keys.data_key SET wrapped_key = '\\x00' WHERE id = $1", [ids[1]]);
    const { code, errorLines } = await runRotation(nextConfig);
    expect(code).to.equal(2);
    expect(errorLines.at(-1)).to.contain(`clinic: data key ${ids[1]} cannot be unwrapped`);
    expect(await listUnusable(ids)).to.deep.equal([ids[1]]);
  });

  it("a rotation whose process is killed leaves every key usable, and is continued", async () => {
    const ids = (await createKeys(1_200)).map(({ id }) => id).sort();
    const blocker = await pool.connect();
    // The process waits for this row in the third batch of 500 keys.
    await blocker.query("BEGIN");
    await blocker.query("SELECT FROM data_keys.data_key WHERE id = $1 FOR UPDATE", [ids[1_100]]);
    const { command, args } = buildNodeCommand("command/cli/main.ts", ["data-keys", "rotate"]);
    const env = { DATABASE_URL: database.urls.command, PERSONAL_DATA_KEYS: JSON.stringify(nextConfig) };
    const child = spawn(command, args, { env: { ...process.env, ...env } });
    const exit = once(child, "exit");
    try {
      await eventually("two complete batches, and a third one that waits", async () => {
        const { rows } = await pool.query(
          `SELECT count(*) FILTER (WHERE master_key_id = 'next')::int AS rewrapped,
             (SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database()
               AND application_name = 'data-keys' AND wait_event_type = 'Lock') AS waiting
           FROM data_keys.data_key`,
        );
        return rows[0].rewrapped === 1_000 && rows[0].waiting === 1;
      });
    } finally {
      child.kill("SIGKILL");
      await exit;
      // The server may still complete the statement of the killed process.
      await blocker.query("ROLLBACK");
      blocker.release();
    }
    expect(child.signalCode).to.equal("SIGKILL");
    expect(await listUnusable(ids, createMasterKeys(nextConfig))).to.deep.equal([]);
    const { outputLines } = await runRotation(nextConfig);
    expect(outputLines[0]).to.match(/wrapped (200|0) keys with the master key next; no key needs another master key/);
    expect(await listUnusable(ids)).to.deep.equal([]);
  });

  it("a rotation without the former master key changes nothing, and names that key", async () => {
    await createKeys(1);
    const { code, errorLines } = await runRotation({ current: "next", keys: { next: keys.next } });
    expect(code).to.equal(2);
    expect(errorLines.join()).to.match(
      /^clinic: data key .* master key former, which is not in PERSONAL_DATA_KEYS; add this master key$/,
    );
  });

  it("a missing setting is named", async () => {
    const { code, errorLines } = await runClinic(["data-keys", "rotate"], { env: { DATABASE_URL: undefined } });
    expect(code).to.equal(2);
    expect(errorLines.join()).to.match(/DATABASE_URL is missing.*PERSONAL_DATA_KEYS is missing/);
  });
});
