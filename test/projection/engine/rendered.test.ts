import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { customerRegistered } from "../../support/clinics.ts";
import { createReadModelDatabase, type ReadModelDatabase } from "../../support/read-models.ts";

describe("rendered columns", () => {
  let database: ReadModelDatabase;

  before(async () => {
    database = await createReadModelDatabase();
  });

  after(() => database.close());

  async function readRenderedCustomer(customerId: string): Promise<unknown> {
    const { rows } = await database.admin.query(
      `SELECT appointment_json FROM ${READ_MODEL_SCHEMA}.customer WHERE customer_id = $1`,
      [customerId],
    );
    return JSON.parse(`{${rows[0].appointment_json}}`);
  }

  it("a rendered column follows every change of its row", async () => {
    const [clinicId, id] = [randomUUID(), randomUUID()];
    await database.given(customerRegistered(clinicId, id, { fullName: 'Ada "Ash" Yılmaz' }));
    expect(await readRenderedCustomer(id)).to.deep.equal({ id, fullName: 'Ada "Ash" Yılmaz' });
    const details = { fullName: "Ada Öz", phone: null, email: null, city: null };
    await database.given({ type: "CustomerDetailsChanged", data: { customerId: id, ...details } });
    expect(await readRenderedCustomer(id)).to.deep.equal({ id, fullName: "Ada Öz" });
  });

  for (const text of ['"', "\\", 'a\\"b', "{a,b}", "NULL", "a  b", "a\nb\tc", "'; --", "Żółw 🐢"]) {
    it(`a row keeps the text ${JSON.stringify(text)} unchanged`, async () => {
      const [clinicId, id] = [randomUUID(), randomUUID()];
      await database.given(customerRegistered(clinicId, id, { fullName: "Ada", city: text }));
      const { rows } = await database.admin.query(
        `SELECT city, portal_json FROM ${READ_MODEL_SCHEMA}.customer WHERE customer_id = $1`,
        [id],
      );
      expect(rows[0].city).to.equal(text);
      expect(JSON.parse(`{${rows[0].portal_json}}`).city).to.equal(text);
    });
  }
});
