import { randomBytes, randomUUID } from "node:crypto";
import { expect } from "chai";
import pg from "pg";
import type { Person, PersonalDataCategory } from "../../../shared/domain/personal-data/person.ts";
import { cacheDataKeys, createDataKeys, KEY_CACHE_MS } from "../../../shared/personal-data/create-data-keys.ts";
import { createDataKeyStore, destroyKeysOf } from "../../../shared/personal-data/data-key-store.ts";
import type { DataKey, DataKeyOwner, DataKeys } from "../../../shared/personal-data/data-keys.ts";
import { createMasterKeys, type MasterKeys } from "../../../shared/personal-data/master-keys.ts";
import { listKeys } from "../../support/data-keys.ts";
import { createMigratedDatabase } from "../../support/migrated-database.ts";
import { getRejection } from "../../support/rejection.ts";
import { useResource } from "../../support/resources.ts";
import { createTestDatabase } from "../../support/stack.ts";

const newMasterKey = () => randomBytes(32).toString("base64");
const newPerson = (): Person => ({ type: "customer", id: randomUUID() });

describe("the store of data keys", () => {
  const keys = { first: newMasterKey(), second: newMasterKey() };
  const masterKeys = createMasterKeys({ current: "first", keys });
  const pools: pg.Pool[] = [];
  const database = useResource(createMigratedDatabase);
  let store: DataKeys;

  /** Creates a store with its own connections, as another process would have. */
  function createStore(usedMasterKeys: MasterKeys = masterKeys, url = database.urls.command): DataKeys {
    const pool = new pg.Pool({ connectionString: url, max: 2 });
    pools.push(pool);
    return createDataKeyStore(pool, usedMasterKeys);
  }

  before(async () => {
    store = createStore();
  });
  after(async () => {
    await Promise.all(pools.map((pool) => pool.end()));
  });

  const destroy = (person: Person, categories: PersonalDataCategory[] | null = null) =>
    destroyKeysOf(pools[0] as pg.Pool, person, categories);
  const getKey = async (owner: DataKeyOwner, from = store) => (await from.getOrCreate([owner]))[0] as DataKey;

  it("each category of a person gets one key, which is found by its id", async () => {
    const person = newPerson();
    const owners: DataKeyOwner[] = [
      { person, category: "notes" },
      { person, category: "contact" },
      { person: { type: "appointment", id: person.id }, category: "notes" },
    ];
    const createdKeys = await store.getOrCreate(owners);
    expect(new Set(createdKeys.map(({ id }) => id)).size).to.equal(3);
    expect(await createStore().getOrCreate(owners)).to.deep.equal(createdKeys);
    const foundKeys = await store.find([...createdKeys.map(({ id }) => id), randomUUID()]);
    expect([...foundKeys]).to.have.deep.members(createdKeys.map(({ id, key }) => [id, key]));
    expect((await listKeys(pools[0] as pg.Pool, person)).map(({ category }) => category)).to.have.members([
      "contact",
      "notes",
    ]);
  });

  it("two processes that create the keys of the same persons concurrently get the same keys", async () => {
    const owners = Array.from({ length: 200 }, (): DataKeyOwner => ({ person: newPerson(), category: "contact" }));
    const [keysOfOne, keysOfOther] = await Promise.all([
      createStore().getOrCreate(owners),
      createStore().getOrCreate([...owners].reverse()),
    ]);
    expect(keysOfOne).to.deep.equal([...keysOfOther].reverse());
    expect(new Set(keysOfOne.map(({ key }) => key.toString("hex"))).size).to.equal(owners.length);
  });

  it("a destroyed key is gone from the table, and new data gets another key", async () => {
    const person = newPerson();
    const contactKey = await getKey({ person, category: "contact" });
    const notesKey = await getKey({ person, category: "notes" });
    expect(await destroy(person, ["notes"])).to.equal(1);
    expect([...(await store.find([contactKey.id, notesKey.id]))]).to.have.deep.members([
      [contactKey.id, contactKey.key],
      [notesKey.id, "destroyed"],
    ]);
    const newNotesKey = await getKey({ person, category: "notes" });
    expect(newNotesKey.id).not.to.equal(notesKey.id);
    expect(await destroy(person)).to.equal(2);
    expect(await destroy(person)).to.equal(0);
    const records = await listKeys(pools[0] as pg.Pool, person);
    expect(records.map(({ category }) => category)).to.have.members(["contact", "notes", "notes"]);
    expect(records.every(({ destroyedAt }) => destroyedAt !== null)).to.equal(true);
    const { rows } = await (pools[0] as pg.Pool).query(
      "SELECT wrapped_key, master_key_id FROM data_keys.data_key WHERE person_id = $1",
      [person.id],
    );
    expect(rows).to.deep.equal(Array(3).fill({ wrapped_key: null, master_key_id: null }));
  });

  it("a key of an unknown or wrong master key is an error that names the master key but no key", async () => {
    const owner: DataKeyOwner = { person: newPerson(), category: "contact" };
    const { id } = await getKey(owner);
    const withoutKey = createStore(createMasterKeys({ current: "second", keys: { second: keys.second } }));
    const problem = await getRejection(withoutKey.getOrCreate([owner]));
    expect((await withoutKey.find([id])).get(id)).to.deep.equal(problem);
    expect(problem.name).to.equal("DataKeyError");
    expect(problem.message).to.contain(id).and.contain("master key first").and.contain("PERSONAL_DATA_KEYS");
    const withWrongKey = createStore(createMasterKeys({ current: "first", keys: { first: keys.second } }));
    expect((await getRejection(withWrongKey.getOrCreate([owner]))).message).to.contain("cannot be unwrapped");
  });

  it("a row that was exchanged with another person's row is an error of the requests for this key only", async () => {
    const owners = Array.from({ length: 2 }, (): DataKeyOwner => ({ person: newPerson(), category: "contact" }));
    const [one, other] = (await store.getOrCreate(owners)) as [DataKey, DataKey];
    await (pools[0] as pg.Pool).query(
      `UPDATE data_keys.data_key SET wrapped_key = (SELECT wrapped_key FROM data_keys.data_key WHERE id = $1) WHERE id = $2`,
      [one.id, other.id],
    );
    // The first search is sent alone. The others then share one statement, and likewise the requests for keys.
    const [, found, foundOther] = await Promise.all([
      store.find([one.id]),
      store.find([one.id]),
      store.find([other.id]),
    ]);
    expect(found?.get(one.id)).to.deep.equal(one.key);
    expect(foundOther?.get(other.id)).to.be.an("error").with.property("name", "DataKeyError");
    const [, usableKey, problem] = await Promise.all([
      store.getOrCreate([{ person: newPerson(), category: "contact" }]),
      getKey(owners[0] as DataKeyOwner),
      getRejection(getKey(owners[1] as DataKeyOwner)),
    ]);
    expect(usableKey).to.deep.equal(one);
    expect(problem.name).to.equal("DataKeyError");
  });

  it("a key without a row is missing and reported, unlike a destroyed key", async () => {
    const owner: DataKeyOwner = { person: newPerson(), category: "contact" };
    const reports: (readonly string[])[] = [];
    const pool = pools[0] as pg.Pool;
    const dataKeys = createDataKeys(pool, { PERSONAL_DATA_KEYS: { current: "first", keys } }, (ids) =>
      reports.push(ids),
    );
    const destroyedId = (await getKey(owner)).id;
    await destroy(owner.person);
    const { id, key } = await getKey(owner);
    const lostId = randomUUID();
    const foundKeys = await dataKeys.find([lostId, destroyedId, id]);
    expect([...foundKeys]).to.have.deep.members([
      [destroyedId, "destroyed"],
      [id, key],
    ]);
    expect(reports).to.deep.equal([[lostId]]);
  });

  it("the store reports that Postgres is unreachable, or that a migration is missing", async () => {
    const owner: DataKeyOwner = { person: newPerson(), category: "contact" };
    const unreachable = createStore(masterKeys, "postgres://nobody@127.0.0.1:1/none");
    for (const call of [unreachable.getOrCreate([owner]), unreachable.find([randomUUID()])])
      expect((await getRejection(call)).name).to.equal("KeyStoreUnavailableError");
    const emptyDatabase = await createTestDatabase();
    const problem = await getRejection(createStore(masterKeys, emptyDatabase.urls.projection).find([randomUUID()]));
    expect(problem.name).to.equal("KeyStoreUnavailableError");
    expect(problem.message).to.contain("clinic projection migrate");
  });

  describe("with a cache", () => {
    let now: number;
    let cachedKeys: DataKeys;
    beforeEach(() => {
      now = 0;
      cachedKeys = cacheDataKeys(createStore(), () => now);
    });

    it("a key that another process destroys is no longer readable after five seconds", async () => {
      const owner: DataKeyOwner = { person: newPerson(), category: "contact" };
      const { id, key } = await getKey(owner);
      expect((await cachedKeys.find([id])).get(id)).to.deep.equal(key);
      await destroy(owner.person);
      now += KEY_CACHE_MS - 1;
      expect((await cachedKeys.find([id])).get(id)).to.deep.equal(key);
      now += 1;
      expect((await cachedKeys.find([id])).get(id)).to.equal("destroyed");
      expect((await getKey(owner, cachedKeys)).id).not.to.equal(id);
    });

    it("cached keys need no database until they expire", async () => {
      const pool = new pg.Pool({ connectionString: database.urls.command, max: 1 });
      const keysOfClosedPool = cacheDataKeys(createDataKeyStore(pool, masterKeys), () => now);
      const owner: DataKeyOwner = { person: newPerson(), category: "contact" };
      const { id, key } = await getKey(owner, keysOfClosedPool);
      await pool.end();
      expect(await getKey(owner, keysOfClosedPool)).to.deep.equal({ id, key });
      expect((await keysOfClosedPool.find([id])).get(id)).to.deep.equal(key);
      now += KEY_CACHE_MS;
      expect((await getRejection(keysOfClosedPool.find([id]))).name).to.equal("KeyStoreUnavailableError");
    });

    it("cached and new keys are returned in the order of the owners", async () => {
      const owners = Array.from({ length: 3 }, (): DataKeyOwner => ({ person: newPerson(), category: "animal" }));
      await cachedKeys.getOrCreate([owners[1] as DataKeyOwner]);
      expect(await cachedKeys.getOrCreate(owners)).to.deep.equal(await store.getOrCreate(owners));
    });
  });
});
