import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { appointmentStatuses } from "../../../shared/domain/appointment/appointment.ts";
import {
  animalRegistered,
  appointmentRequested,
  createIds,
  customerRegistered,
  openClinic,
  resourceAdded,
  resourceAllocated,
} from "../../support/clinics.ts";
import { setUpQueryApi } from "../../support/query-api.ts";

const marchQuery = "from=2026-03-01T00:00:00Z&to=2026-04-01T00:00:00Z";

describe("listAppointments", () => {
  const api = setUpQueryApi();

  const readList = (userId: string, query = marchQuery) => api.read(`/api/v1/appointments?${query}`, userId);

  const listIds = (body: { appointments: { id: string }[] }) => body.appointments.map(({ id }) => id);

  it("listAppointments returns all fields of an appointment, with animal, customer and resources", async () => {
    const { clinicId, branchId, userId } = await openClinic(api.given);
    const [appointmentId, animalId, customerId, roomId, tableId] = createIds();
    const [firstAssignmentId, secondAssignmentId, thirdAssignmentId] = createIds();
    await api.given(
      customerRegistered(clinicId, customerId),
      animalRegistered(clinicId, customerId, animalId, { breed: "Van" }),
      resourceAdded(clinicId, branchId, roomId),
      resourceAdded(clinicId, branchId, tableId, { resourceType: "table", name: "Table" }),
      appointmentRequested(clinicId, branchId, "2026-03-10T12:00:00+03:00", {
        appointmentId,
        animalId,
        customerId,
        reason: "Vaccination",
        notes: 'Says "hello" – 🐈\n',
        durationMinutes: 45,
      }),
      { type: "AppointmentConfirmed", data: { appointmentId }, at: "2026-03-02T09:00:00.500Z" },
    );
    // In another batch, the engine loads the rows of the resources from the database.
    await api.given(
      ...[
        [firstAssignmentId, tableId, "2026-03-10T09:10:00.000Z"],
        [secondAssignmentId, roomId, "2026-03-10T09:00:00.000Z"],
        [thirdAssignmentId, randomUUID(), "2026-03-10T09:20:00.000Z"],
      ].map(([assignmentId = "", resourceId = "", allocationStart = ""]) => {
        const allocation = { appointmentId, assignmentId, resourceId, allocationStart };
        const event = resourceAllocated({ ...allocation, allocationEnd: "2026-03-10T09:45:00.000Z" });
        return { ...event, at: "2026-03-02T09:00:01.000Z" };
      }),
      {
        type: "ResourceReleased",
        data: { appointmentId, assignmentId: firstAssignmentId },
        at: "2026-03-02T10:00:00.000Z",
      },
    );
    const { correlationId, generatedAt, ...body } = await readList(userId);
    const unknownId = body.appointments[0].resources[2].id;
    expect(body).to.deep.equal({
      ok: true,
      apiVersion: "v1",
      context: { clinicId, branchId },
      window: { from: "2026-03-01T00:00:00.000Z", to: "2026-04-01T00:00:00.000Z", maximumDays: 31 },
      appointments: [
        {
          id: appointmentId,
          scheduledAt: "2026-03-10T09:00:00.000Z",
          durationMinutes: 45,
          reason: "Vaccination",
          status: "confirmed",
          notes: 'Says "hello" – 🐈\n',
          createdAt: "2026-03-01T08:00:00.000Z",
          updatedAt: "2026-03-02T10:00:00.000Z",
          animal: { id: animalId, name: "Pamuk", species: "cat", breed: "Van" },
          customer: { id: customerId, fullName: "Ada Yilmaz" },
          resources: [
            createExpectedResource(roomId, "room", "Room 1", "2026-03-10T09:00:00.000Z", "allocated"),
            createExpectedResource(tableId, "table", "Table", "2026-03-10T09:10:00.000Z", "released"),
            createExpectedResource(unknownId, null, null, "2026-03-10T09:20:00.000Z", "allocated"),
          ],
        },
      ],
      page: { limit: 100, returned: 1 },
    });
    expect([correlationId, generatedAt]).to.not.include(undefined);
  });

  function createExpectedResource(
    id: string,
    type: string | null,
    name: string | null,
    allocationStart: string,
    status: string,
  ) {
    return { id, type, name, allocationStart, allocationEnd: "2026-03-10T09:45:00.000Z", status };
  }

  it("listAppointments treats `from` as inclusive and `to` as exclusive, and sorts by time and id", async () => {
    const { clinicId, branchId, userId } = await openClinic(api.given);
    const [lowerId, higherId] = [randomUUID(), randomUUID()].sort() as [string, string];
    const createRequestEvent = (scheduledAt: string, appointmentId: string = randomUUID()) =>
      appointmentRequested(clinicId, branchId, scheduledAt, { appointmentId });
    const [firstId, lastId] = createIds();
    await api.given(
      createRequestEvent("2026-02-28T23:59:59.999Z"),
      createRequestEvent("2026-03-31T23:59:59.999Z", lastId),
      createRequestEvent("2026-03-05T10:00:00Z", higherId),
      createRequestEvent("2026-03-05T10:00:00Z", lowerId),
      createRequestEvent("2026-03-01T00:00:00Z", firstId),
      createRequestEvent("2026-04-01T00:00:00Z"),
    );
    expect(listIds(await readList(userId))).to.deep.equal([firstId, lowerId, higherId, lastId]);
  });

  it("listAppointments clamps `limit`, and uses the default if `limit` is repeated", async () => {
    const { clinicId, branchId, userId } = await openClinic(api.given);
    await api.given(...[5, 6, 7].map((day) => appointmentRequested(clinicId, branchId, `2026-03-0${day}T10:00:00Z`)));
    expect((await readList(userId, `${marchQuery}&limit=2`)).page).to.deep.equal({ limit: 2, returned: 2 });
    expect((await readList(userId, `${marchQuery}&limit=0`)).page).to.deep.equal({ limit: 1, returned: 1 });
    expect((await readList(userId, `${marchQuery}&limit=1000`)).page).to.deep.equal({ limit: 250, returned: 3 });
    expect((await readList(userId, `${marchQuery}&limit=2&limit=2`)).page.limit).to.equal(100);
  });

  it("listAppointments filters by `status`, and ignores an unknown or repeated `status`", async () => {
    const { clinicId, branchId, userId } = await openClinic(api.given);
    const eventTypesByStatus: Record<string, string[]> = {
      requested: [],
      confirmed: ["AppointmentConfirmed"],
      checked_in: ["AppointmentCheckedIn"],
      waiting: ["AppointmentCheckedIn", "AppointmentPutInWaiting"],
      in_consultation: ["AppointmentCheckedIn", "ConsultationStarted"],
      completed: ["AppointmentCheckedIn", "ConsultationStarted", "AppointmentCompleted"],
      cancelled: ["AppointmentCancelled"],
      no_show: ["AppointmentConfirmed", "AppointmentMarkedNoShow"],
    };
    for (const eventTypes of Object.values(eventTypesByStatus)) {
      const appointmentId = randomUUID();
      await api.given(
        appointmentRequested(clinicId, branchId, "2026-03-05T10:00:00Z", { appointmentId }),
        ...eventTypes.map((type) => ({ type, data: { appointmentId, reason: null } }) as never),
      );
    }
    for (const status of appointmentStatuses) {
      const { appointments } = await readList(userId, `${marchQuery}&status=${status}`);
      expect(appointments.map((appointment: { status: string }) => appointment.status)).to.deep.equal([status]);
    }
    for (const query of ["status=lost", "status=WAITING", "status=waiting&status=waiting", "status="])
      expect((await readList(userId, `${marchQuery}&${query}`)).page.returned).to.equal(8);
  });

  it("listAppointments returns appointments of the current branch, and ignores branch ids in the query", async () => {
    const { clinicId, branchId, otherBranchId, userId } = await openClinic(api.given);
    await api.given(appointmentRequested(clinicId, otherBranchId, "2026-03-05T10:00:00Z"));
    const body = await readList(userId, `${marchQuery}&branchId=${otherBranchId}`);
    expect([body.context.branchId, body.page.returned]).to.deep.equal([branchId, 0]);
    await api.given({ type: "ClinicSelected", data: { userId, clinicId, branchId: otherBranchId } });
    expect((await readList(userId)).page.returned).to.equal(1);
  });

  it("listAppointments returns null for an animal or customer of another clinic", async () => {
    const { clinicId, branchId, userId } = await openClinic(api.given);
    const otherClinic = await openClinic(api.given);
    const [animalId, customerId] = createIds();
    const appointmentId = randomUUID();
    await api.given(
      customerRegistered(otherClinic.clinicId, customerId),
      animalRegistered(otherClinic.clinicId, customerId, animalId),
      appointmentRequested(clinicId, branchId, "2026-03-05T10:00:00Z", { appointmentId, animalId, customerId }),
    );
    const { appointments } = await readList(userId);
    const { animal, customer } = appointments[0];
    expect([animal, customer]).to.deep.equal([null, null]);
  });
});
