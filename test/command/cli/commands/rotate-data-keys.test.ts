import { randomBytes, randomUUID } from "node:crypto";
import { expect } from "chai";
import pg from "pg";
import { createDataKeyStore } from "../../../../shared/personal-data/data-key-store.ts";
import type { DataKeyOwner } from "../../../../shared/personal-data/data-keys.ts";
import { createMasterKeys } from "../../../../shared/personal-data/master-keys.ts";
import { rotateDataKeys } from "../../../../shared/personal-data/rotate-data-keys.ts";
import { createMigratedDatabase } from "../../../support/migrated-database.ts";
import type { TestDatabase } from "../../../support/stack.ts";
import { runClinic } from "../terminal.ts";

const newMasterKey = () => randomBytes(32).toString("base64");

describe("clinic data-keys rotate", () => {
  const keys = { former: newMasterKey(), next: newMasterKey() };
  const formerConfig = { current: "former", keys };
  const nextConfig = { current: "next", keys };
  let database: TestDatabase;
  let pool: pg.Pool;

  beforeEach(async () => {
    database = await createMigratedDatabase();
    pool = new pg.Pool({ connectionString: database.urls.command, max: 2 });
  });
  afterEach(async () => {
    await pool.end();
    await database.drop();
  });

  async function createKeys(count: number) {
    const owners = Array.from(
      { length: count },
      (): DataKeyOwner => ({ person: { type: "customer", id: randomUUID() }, category: "contact" }),
    );
    return createDataKeyStore(pool, createMasterKeys(formerConfig)).getOrCreate(owners);
  }
  const readWithNextOnly = (ids: string[]) =>
    createDataKeyStore(pool, createMasterKeys({ current: "next", keys: { next: keys.next } })).find(ids);
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
    expect(dataKeys.every(({ id, key }) => foundKeys.get(id)?.equals(key))).to.equal(true);
    expect((await runRotation(nextConfig)).outputLines[0]).to.contain("wrapped 0 keys");
  });

  it("a rotation that ends in the middle leaves every key readable, and is continued", async () => {
    const dataKeys = await createKeys(25);
    const rotation = rotateDataKeys(pool, createMasterKeys(nextConfig), 10);
    expect((await rotation.next()).value).to.deep.equal({ rewrapped: 0, found: 25 });
    expect((await rotation.next()).value).to.deep.equal({ rewrapped: 10, found: 25 });
    const ids = dataKeys.map(({ id }) => id);
    expect((await createDataKeyStore(pool, createMasterKeys(formerConfig)).find(ids)).size).to.equal(25);
    const { outputLines } = await runRotation(nextConfig);
    expect(outputLines[0]).to.contain("wrapped 15 keys");
    expect((await readWithNextOnly(ids)).size).to.equal(25);
  });

  it("a rotation does not restore a key that is destroyed meanwhile", async () => {
    const [dataKey] = await createKeys(1);
    const { rows } = await pool.query("SELECT person_id FROM data_keys.data_key");
    const rotation = rotateDataKeys(pool, createMasterKeys(nextConfig));
    await rotation.next();
    await createDataKeyStore(pool, createMasterKeys(nextConfig)).destroy({ type: "customer", id: rows[0].person_id });
    expect((await rotation.next()).done).to.equal(true);
    expect((await readWithNextOnly([dataKey!.id])).size).to.equal(0);
  });

  it("a rotation without the former master key changes nothing, and names that key", async () => {
    await createKeys(1);
    const { code, errorLines } = await runRotation({ current: "next", keys: { next: keys.next } });
    expect(code).to.equal(2);
    expect(errorLines.join()).to.match(/^clinic: data key .* master key former, which is not in PERSONAL_DATA_KEYS$/);
  });

  it("a missing setting is named", async () => {
    const { code, errorLines } = await runClinic(["data-keys", "rotate"]);
    expect(code).to.equal(2);
    expect(errorLines.join()).to.match(/DATABASE_URL is missing.*PERSONAL_DATA_KEYS is missing/);
  });
});
