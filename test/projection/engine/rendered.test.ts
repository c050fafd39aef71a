import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { readModels } from "../../../projection/read-models/all.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import {
  appointmentRequested,
  availabilityRuleSet,
  createIds,
  customerRegistered,
  resourceAdded,
  resourceAllocated,
} from "../../support/clinics.ts";
import { createReadModelDatabase, type GivenEvent } from "../../support/read-models.ts";
import { useResource } from "../../support/resources.ts";

describe("rendered columns", () => {
  const database = useResource(createReadModelDatabase);

  async function readRenderedCustomer(customerId: string): Promise<unknown> {
    const { rows } = await database.admin.query(
      `SELECT appointment_json FROM ${READ_MODEL_SCHEMA}.customer WHERE customer_id = $1`,
      [customerId],
    );
    return JSON.parse(`{${rows[0].appointment_json}}`);
  }

  /** Returns the rendered columns of a clinic's rows as text, by table. */
  async function readRenderedRows(clinicId: string): Promise<Record<string, string>> {
    const entries = readModels
      .filter(({ columns, renderedColumns }) => renderedColumns && "clinic_id" in columns)
      .map(async ({ table, renderedColumns = {} }) => {
        const { rows } = await database.admin.query(
          `SELECT concat_ws(E'\\n', ${Object.keys(renderedColumns)}) AS text
            FROM ${READ_MODEL_SCHEMA}.${table} WHERE clinic_id = $1`,
          [clinicId],
        );
        return [table, rows.map((row) => row.text).join()] as const;
      });
    return Object.fromEntries(await Promise.all(entries));
  }

  it("a rendered column follows every change of its row", async () => {
    const [clinicId, id] = [randomUUID(), randomUUID()];
    await database.given(customerRegistered(clinicId, id, { fullName: 'Ada "Ash" Yılmaz' }));
    expect(await readRenderedCustomer(id)).to.deep.equal({ id, fullName: 'Ada "Ash" Yılmaz' });
    const details = { fullName: "Ada Öz", phone: null, email: null, city: null };
    await database.given({ type: "CustomerDetailsChanged", data: { customerId: id, ...details } });
    expect(await readRenderedCustomer(id)).to.deep.equal({ id, fullName: "Ada Öz" });
  });

  it("rendered columns keep the order of members, and do not depend on how the events are divided into batches", async () => {
    const [clinicId, branchId, resourceId, ruleId, appointmentId, assignmentId] = createIds();
    const attributes = { zone: { floor: 2, b: 1 }, a: [{ yy: 1, x: 2 }] };
    const events: GivenEvent[] = [
      resourceAdded(clinicId, branchId, resourceId, { metadata: attributes }),
      availabilityRuleSet({ resourceId, ruleId, recurrence: attributes }),
      appointmentRequested(clinicId, branchId, "2026-03-12T10:00:00Z", { appointmentId }),
      resourceAllocated({ appointmentId, assignmentId, resourceId }),
      { type: "AppointmentConfirmed", data: { appointmentId } },
      { type: "ResourceReleased", data: { appointmentId, assignmentId } },
      { type: "ResourceRetired", data: { resourceId } },
    ];
    await database.given(...events);
    const renderedRows = await readRenderedRows(clinicId);
    expect(renderedRows.resource).to.contain(JSON.stringify(attributes));
    for (const event of events) await database.given(event);
    expect(await readRenderedRows(clinicId)).to.deep.equal(renderedRows);
    for (const { table, columns, renderedColumns } of readModels)
      if (renderedColumns) expect(Object.values(columns), table).to.not.include("jsonb");
  });

  for (const text of ['"', "\\", 'a\\"b', "{a,b}", "NULL", "a  b", "a\nb\tc", "'; --", "Żółw 🐢"])
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
});
