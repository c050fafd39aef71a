import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { getQueue } from "../../../query-api/portal/get-queue.ts";
import { listAppointments } from "../../../query-api/portal/list-appointments.ts";
import { listCustomerProjections } from "../../../query-api/portal/list-customer-projections.ts";
import { listStaff } from "../../../query-api/portal/list-staff.ts";
import { animalRegistered, appointmentRequested, customerRegistered, openClinic } from "../../support/clinics.ts";
import { setUpQueryApi } from "../set-up-query-api.ts";

const erasure = { cause: "request", reason: "Request 17" } as const;

describe("portal responses after an erasure", () => {
  const api = setUpQueryApi();

  it("the portal shows neutral values that fit the contract, and keeps appointments, tickets and staff", async () => {
    const { clinicId, branchId, userId } = await openClinic(api.given);
    const [customerId, animalId, ticketId, staffId] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()];
    const contact = { fullName: "Ada Yilmaz", phone: "+90 1", email: "ada@example.com", city: "Izmir" };
    const visit = { animalId, customerId, reason: "Limps", notes: "Bites" };
    await api.given(
      customerRegistered(clinicId, customerId, contact),
      animalRegistered(clinicId, customerId, animalId, { breed: "Van", sex: "female", microchip: "9", weightKg: 4 }),
      appointmentRequested(clinicId, branchId, "2026-03-10T12:00:00Z", visit),
      {
        type: "QueueTicketIssued",
        data: {
          ...{ ticketId, clinicId, branchId, appointmentId: null, visitId: null, animalId, customerId },
          ...{ ticketNumber: "1", queueDate: "2026-03-10", arrivalType: "walk_in", priority: "normal" },
          ...{ estimatedWaitMinutes: null, notes: "Nervous" },
        },
      },
      {
        type: "StaffMemberHired",
        data: { staffId, clinicId, userId: null, fullName: "Zoe Lind", email: "zoe@example.com", role: "owner" },
      },
      { type: "CustomerDataErased", data: { customerId, categories: ["contact", "animal", "notes"], ...erasure } },
      { type: "StaffDataErased", data: { staffId, categories: ["contact"], ...erasure } },
    );
    const read = async (path: string, schema: { parse(body: unknown): unknown }) => {
      const { status, body } = await api.get(path, userId);
      expect(status, path).to.equal(200);
      schema.parse(body);
      return body;
    };
    const { customers } = await read("/api/v1/customers", listCustomerProjections("Test Operator").response);
    expect(customers[0]).to.include({ id: customerId, fullName: "(erased)", phone: null, email: null, city: null });
    const neutralAnimal = { name: "(erased)", species: "(erased)", breed: null, sex: null, microchip: null };
    expect(customers[0].animals[0]).to.include({ id: animalId, ...neutralAnimal, weightKg: 4 });
    const range = "from=2026-03-01T00:00:00Z&to=2026-04-01T00:00:00Z";
    const { appointments } = await read(`/api/v1/appointments?${range}`, listAppointments.response);
    expect(appointments[0]).to.include({ reason: null, notes: null, scheduledAt: "2026-03-10T12:00:00.000Z" });
    expect(appointments[0].customer).to.deep.equal({ id: customerId, fullName: "(erased)" });
    expect(appointments[0].animal).to.include({ id: animalId, name: "(erased)", species: "(erased)" });
    const queue = await read("/api/v1/queue", getQueue.response);
    expect(JSON.stringify(queue)).to.contain(ticketId).and.not.contain("Nervous");
    const { staff } = await read("/api/v1/staff", listStaff.response);
    expect(staff[0]).to.include({ id: staffId, fullName: null, email: null, role: "owner" });
  });
});
