import { createCipheriv, randomBytes, randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import pg from "pg";
import { requestDefaults } from "../../../shared/domain/events/appointment.ts";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import { EventSchemaError } from "../../../shared/domain/events/stored-event.ts";
import type { Person } from "../../../shared/domain/personal-data/person.ts";
import { createEventLog, EMPTY_STREAM, type EventLog, type NewEvent } from "../../../shared/eventstore/log.ts";
import { encrypt } from "../../../shared/personal-data/aes-gcm.ts";
import { decryptEvent } from "../../../shared/personal-data/decrypt-events.ts";
import { connectToLog } from "../../support/connections.ts";
import { createTestDataKeys, type TestDataKeys } from "../../support/data-keys.ts";
import { createMigratedDatabase } from "../../support/migrated-database.ts";
import { getTestServers, type TestDatabase } from "../../support/stack.ts";
import { createStoredMetadata } from "../../support/stored-metadata.ts";

const customerId = "0b9c1d9e-6a35-4a0c-9d63-7f5c1d0e2a11";
const stream = `customer-${customerId}`;
const contact = { fullName: "Ana Kos", phone: null, email: "ana@example.com", city: "Ljubljana" };
const neutralContact = { fullName: "(erased)", phone: null, email: null, city: null };

/**
 * Inputs and expected ciphertext of an encryption. The ciphertext was computed with the Python library `cryptography`.
 */
const vector = {
  key: Buffer.from("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "hex"),
  nonce: Buffer.from("cafebabefacedbaddecaf888", "hex"),
  id: "6f2d9a3c-1f0e-4c55-8a2b-0d4e5f607182",
  keyId: "3d5b7a90-8c4e-4b21-9f10-aabbccddeeff",
  plaintext: JSON.stringify(contact),
};

/** Encrypts as documented, without the code under test. */
function encryptAsDocumented(context: string, plaintext = vector.plaintext): string {
  const cipher = createCipheriv("aes-256-gcm", vector.key, vector.nonce);
  cipher.setAAD(Buffer.from(context));
  const ciphertext = Buffer.concat([cipher.update(plaintext, "utf8"), cipher.final()]);
  return Buffer.concat([vector.nonce, ciphertext, cipher.getAuthTag()]).toString("base64");
}

function createStoredEvent(ciphertext: string, fields: Partial<RecordedEvent> = {}): RecordedEvent {
  return {
    ...{ type: "CustomerRegistered", data: { customerId, clinicId: customerId, ...neutralContact } },
    ...{ id: vector.id, stream, revision: 0n, position: 0n, metadata: { ...createStoredMetadata(), schemaVersion: 2 } },
    encrypted: { keyId: vector.keyId, ciphertext },
    ...fields,
  } as RecordedEvent;
}

describe("the encrypted form of an event", () => {
  const keys = new Map([[vector.keyId, vector.key]]);
  const ciphertext = encryptAsDocumented(`${stream}\n${vector.id}`);

  it("an event that was encrypted as documented is decrypted", () => {
    expect(ciphertext).to.equal(
      "yv66vvrO263eyviI8YHGU8YWAXorbn/nWVznXi1rryL9NUgEJrBqFJyzC4rBPO1kpLkoC0p5EkpT7UElPCzIPNPm7f5A/RweksbUKxX7fEhtCDeqMrZMf8Z/0karSn0cw2fh5tS+rhJfjyyD",
    );
    const event = decryptEvent(createStoredEvent(ciphertext), keys);
    expect(event.data).to.deep.equal({ customerId, clinicId: customerId, ...contact });
    expect(event).not.to.have.any.keys("encrypted", "isErased");
  });

  it("an event whose key was destroyed keeps neutral values and is marked as erased", () => {
    const event = decryptEvent(createStoredEvent(ciphertext), new Map([[vector.keyId, "destroyed"]]));
    expect(event.data).to.include(neutralContact);
    expect(event).to.include({ isErased: true }).and.not.have.property("isKeyMissing");
  });

  it("an event whose key is missing keeps neutral values, but is not marked as erased", () => {
    const event = decryptEvent(createStoredEvent(ciphertext), new Map());
    expect(event.data).to.include(neutralContact);
    expect(event).to.include({ isKeyMissing: true }).and.not.have.property("isErased");
  });

  for (const [change, fields] of Object.entries({
    "moved to another stream": { stream: "customer-other" },
    "moved to another event": { id: randomUUID() },
    "changed in one bit": {
      encrypted: { keyId: vector.keyId, ciphertext: `${ciphertext.slice(0, 40)}A${ciphertext.slice(41)}` },
    },
    "cut off": { encrypted: { keyId: vector.keyId, ciphertext: ciphertext.slice(0, 20) } },
  }))
    it(`a ciphertext that was ${change} is an error, not an erasure`, () => {
      const storedEvent = createStoredEvent(ciphertext, fields);
      expect(() => decryptEvent(storedEvent, keys)).to.throw(EventSchemaError, "cannot be decrypted");
    });

  it("no two ciphertexts have the same nonce", () => {
    const count = 2_000;
    const nonces = Array.from({ length: count }, () => encrypt(vector.key, "text", "context").toString("hex", 0, 12));
    expect(new Set(nonces).size).to.equal(count);
  });

  it("another key is an error that contains no personal data", () => {
    const otherKeys = new Map([[vector.keyId, randomBytes(32)]]);
    expect(() => decryptEvent(createStoredEvent(ciphertext), otherKeys)).to.throw(
      EventSchemaError,
      /^CustomerRegistered has personal data that cannot be decrypted; .*3d5b7a90/,
    );
  });

  it("decrypted values that do not match the schema are an error that names the field", () => {
    const invalidCiphertext = encryptAsDocumented(`${stream}\n${vector.id}`, '{"fullName":"Ana","email":"nobody"}');
    expect(() => decryptEvent(createStoredEvent(invalidCiphertext), keys)).to.throw(EventSchemaError, "data.email");
  });
});

describe("an event log with encryption", () => {
  let client: EventStoreDBClient;
  let database: TestDatabase;
  let pool: pg.Pool;
  let dataKeys: TestDataKeys;
  let log: EventLog;

  before(async () => {
    client = connectToLog((await getTestServers()).eventstoreUrl);
    database = await createMigratedDatabase();
    pool = new pg.Pool({ connectionString: database.urls.command, max: 2 });
    dataKeys = createTestDataKeys(pool);
    log = createEventLog(client, { dataKeys });
  });
  after(async () => {
    await Promise.all([client.dispose(), pool.end()]);
  });

  const createRegistration = (id: string): CatalogEvent => ({
    type: "CustomerRegistered",
    data: { customerId: id, clinicId: id, ...contact },
  });
  const toNewEvent = (event: CatalogEvent, person?: Person): NewEvent => ({
    ...{ id: randomUUID(), event, person },
    metadata: createStoredMetadata(event),
  });
  async function readStoredData(name: string): Promise<Record<string, unknown>[]> {
    const events: Record<string, unknown>[] = [];
    for await (const { event } of client.readStream(name)) events.push(event?.data as Record<string, unknown>);
    return events;
  }
  async function registerCustomer(): Promise<{ id: string; person: Person; name: string }> {
    const id = randomUUID();
    const person: Person = { type: "customer", id };
    const changed: CatalogEvent = {
      type: "CustomerDetailsChanged",
      data: { customerId: id, ...contact, fullName: "Ana Novak" },
    };
    await log.append(`customer-${id}`, EMPTY_STREAM, [
      toNewEvent(createRegistration(id), person),
      toNewEvent(changed, person),
    ]);
    return { id, person, name: `customer-${id}` };
  }

  it("stored events contain no personal data, and reads return it", async () => {
    const { id, name } = await registerCustomer();
    const storedEvents = await readStoredData(name);
    expect(JSON.stringify(storedEvents)).not.to.match(/Ana|Kos|Novak|example\.com|Ljubljana/);
    expect(storedEvents.map((data) => Object.keys(data))).to.deep.equal([
      ["customerId", "clinicId", "encrypted"],
      ["customerId", "encrypted"],
    ]);
    const events = await log.read(name);
    expect(events.map(({ data }) => data)).to.deep.equal([
      { customerId: id, clinicId: id, ...contact },
      { customerId: id, ...contact, fullName: "Ana Novak" },
    ]);
    expect((await log.readLast(name))?.data).to.deep.equal(events[1]?.data);
  });

  it("a log without data keys reads neutral values, and refuses to append personal data", async () => {
    const { id, name, person } = await registerCustomer();
    const keylessLog = createEventLog(client);
    const [event] = await keylessLog.read(name);
    expect(event?.data).to.deep.equal({ customerId: id, clinicId: id, ...neutralContact });
    const append = keylessLog.append(name, 1n, [toNewEvent(createRegistration(id), person)]);
    expect(await append.catch((error: Error) => error.message)).to.contain("has no data keys");
  });

  it("personal data without a person is refused, and nothing is appended", async () => {
    const id = randomUUID();
    const append = log.append(`customer-${id}`, EMPTY_STREAM, [toNewEvent(createRegistration(id))]);
    expect(await append.catch((error: Error) => error.message)).to.contain("names no person");
    expect(await log.read(`customer-${id}`)).to.deep.equal([]);
  });

  it("after the keys are destroyed, reads return neutral values with a mark", async () => {
    const { id, name, person } = await registerCustomer();
    await dataKeys.destroy(person);
    for (const event of await log.read(name)) {
      expect(event.data).to.include({ customerId: id, ...neutralContact });
      expect(event.isErased).to.equal(true);
    }
  });

  it("an event without personal data, or with neutral values only, is stored in plain text and creates no key", async () => {
    const id = randomUUID();
    const person: Person = { type: "appointment", id };
    const appointment = {
      ...requestDefaults,
      appointmentId: id,
      clinicId: id,
      branchId: id,
      scheduledAt: "2026-05-04T08:00:00.000Z",
      requestHash: "5d1c",
    };
    await log.append(`appointment-${id}`, EMPTY_STREAM, [
      toNewEvent({ type: "AppointmentRequested", data: appointment }, person),
      toNewEvent({ type: "AppointmentConfirmed", data: { appointmentId: id } }, person),
    ]);
    expect(await readStoredData(`appointment-${id}`)).to.deep.equal([appointment, { appointmentId: id }]);
    expect(await dataKeys.listOf(person)).to.deep.equal([]);
  });

  it("the hash of texts is encrypted together with the texts", async () => {
    const id = randomUUID();
    const person: Person = { type: "appointment", id };
    const appointment = {
      ...requestDefaults,
      appointmentId: id,
      clinicId: id,
      branchId: id,
      scheduledAt: "2026-05-04T08:00:00.000Z",
      notes: "limps",
      textHash: "5d1c",
    };
    await log.append(`appointment-${id}`, EMPTY_STREAM, [
      toNewEvent({ type: "AppointmentRequested", data: appointment }, person),
    ]);
    const [storedData] = await readStoredData(`appointment-${id}`);
    expect(storedData).not.to.have.any.keys("notes", "reason", "textHash");
    expect((await log.read(`appointment-${id}`))[0]?.data).to.deep.equal(appointment);
  });

  it("without the key store, events without personal data and persons with cached keys are appended, others fail clearly", async () => {
    const ownPool = new pg.Pool({ connectionString: database.urls.command, max: 1 });
    const ownLog = createEventLog(client, { dataKeys: createTestDataKeys(ownPool) });
    const { id, name, person } = await registerCustomer();
    await ownLog.read(name);
    const newPerson: Person = { type: "customer", id: randomUUID() };
    await ownLog.append(`customer-${newPerson.id}`, EMPTY_STREAM, [
      toNewEvent(createRegistration(newPerson.id), newPerson),
    ]);
    await ownPool.end();
    const changed: CatalogEvent = { type: "CustomerDetailsChanged", data: { customerId: newPerson.id, ...contact } };
    await ownLog.append(`customer-${newPerson.id}`, 0n, [toNewEvent(changed, newPerson)]);
    await ownLog.append(`staff-${id}`, EMPTY_STREAM, [
      toNewEvent({ type: "StaffMemberDeactivated", data: { staffId: id } }),
    ]);
    const otherId = randomUUID();
    const append = ownLog.append(`customer-${otherId}`, EMPTY_STREAM, [
      toNewEvent(createRegistration(otherId), { ...person, id: otherId }),
    ]);
    expect(await append.catch((error: Error) => `${error.name}: ${error.message}`)).to.equal(
      "KeyStoreUnavailableError: the store of data keys (Postgres) is unavailable",
    );
  });
});
