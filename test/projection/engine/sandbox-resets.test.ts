import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { deriveSandboxClinicId } from "../../../shared/domain/events/ids.ts";
import { createFixture } from "../../../shared/domain/partner/sandbox-fixture.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { appointmentRequested, customerRegistered } from "../../support/clinics.ts";
import { createReadModelDatabase, type GivenEvent } from "../../support/read-models.ts";
import { useResource } from "../../support/resources.ts";

const day = "2026-03-10";

describe("sandbox resets in the read models", () => {
  const database = useResource(createReadModelDatabase);

  function createSandbox() {
    const applicationId = randomUUID();
    const clinicId = deriveSandboxClinicId(applicationId);
    const events = createFixture(applicationId, day);
    const createResetEvent = (generation: number): GivenEvent => ({
      type: "SandboxReset",
      data: { applicationId, clinicId, generation, day, events },
    });
    const createRequestedEvent = (sandboxGeneration: number): GivenEvent =>
      appointmentRequested(clinicId, randomUUID(), "2026-03-12T10:00:00Z", { sandboxGeneration });
    const readRows = async (table: string) => {
      const { rows } = await database.admin.query(
        `SELECT * FROM ${READ_MODEL_SCHEMA}.${table} WHERE clinic_id = $1 ORDER BY 1`,
        [clinicId],
      );
      // Only the position and the id of the reset differ between resets.
      return rows.map(({ position: _, event_id: __, ...row }) => row);
    };
    return { clinicId, createResetEvent, createRequestedEvent, readRows };
  }

  it("after a sandbox reset, only the fixture data is left, regardless of how the events are divided into batches", async () => {
    for (const isOneBatch of [true, false]) {
      const { createResetEvent, createRequestedEvent, readRows, clinicId } = createSandbox();
      await database.given(createResetEvent(1));
      const tables = ["service", "customer", "animal", "resource", "appointment"];
      const freshRows = await Promise.all(tables.map(readRows));
      const events = [
        createRequestedEvent(1),
        customerRegistered(clinicId, randomUUID()),
        createRequestedEvent(1),
        createResetEvent(2),
        createRequestedEvent(1),
      ];
      if (isOneBatch) await database.given(...events);
      else for (const event of events) await database.given(event);
      expect(await Promise.all(tables.map(readRows))).to.deep.equal(freshRows);
      await database.given(createRequestedEvent(2));
      expect(await readRows("appointment")).to.have.length(8);
    }
  });

  it("a sandbox reset changes no other clinic", async () => {
    const [firstSandbox, secondSandbox] = [createSandbox(), createSandbox()];
    const clinicId = randomUUID();
    await database.given(
      firstSandbox.createResetEvent(1),
      secondSandbox.createResetEvent(1),
      secondSandbox.createRequestedEvent(1),
    );
    await database.given(appointmentRequested(clinicId, randomUUID(), "2026-03-12T10:00:00Z"));
    const rowsBefore = [await secondSandbox.readRows("appointment"), await secondSandbox.readRows("animal")];
    await database.given(firstSandbox.createRequestedEvent(1), firstSandbox.createResetEvent(2));
    expect([await secondSandbox.readRows("appointment"), await secondSandbox.readRows("animal")]).to.deep.equal(
      rowsBefore,
    );
    const { rows } = await database.admin.query(`SELECT FROM ${READ_MODEL_SCHEMA}.appointment WHERE clinic_id = $1`, [
      clinicId,
    ]);
    expect(rows).to.have.length(1);
  });

  it("a sandbox reset removes availability rules and assignments of deleted resources and appointments", async () => {
    const { createResetEvent, clinicId } = createSandbox();
    await database.given(createResetEvent(1));
    const appointment = appointmentRequested(clinicId, randomUUID(), "2026-03-12T10:00:00Z", { sandboxGeneration: 1 });
    const { appointmentId } = appointment.data as { appointmentId: string };
    const allocationSpan = { allocationStart: "2026-03-12T10:00:00Z", allocationEnd: "2026-03-12T10:30:00Z" };
    const allocation = { appointmentId, assignmentId: randomUUID(), resourceId: randomUUID(), ...allocationSpan };
    await database.given(appointment, { type: "ResourceAllocated", data: allocation }, createResetEvent(2));
    const { rows } = await database.admin.query(
      `SELECT FROM ${READ_MODEL_SCHEMA}.assignment WHERE appointment_id = $1`,
      [appointmentId],
    );
    expect(rows).to.have.length(0);
    const rules = await database.admin.query(
      `SELECT FROM ${READ_MODEL_SCHEMA}.availability_rule JOIN ${READ_MODEL_SCHEMA}.resource USING (resource_id, clinic_id) WHERE clinic_id = $1`,
      [clinicId],
    );
    expect(rules.rows).to.have.length(10);
  });
});
