import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { getQueue } from "../../../query-api/portal/get-queue.ts";
import { appointmentRequested, openClinic } from "../../support/clinics.ts";
import type { GivenEvent } from "../../support/read-models.ts";
import { setUpQueryApi } from "../set-up-query-api.ts";

describe("getQueue", () => {
  const api = setUpQueryApi();

  async function queue(userId: string) {
    const { status, body } = await api.get("/api/v1/queue", userId);
    expect(status, JSON.stringify(body)).to.equal(200);
    getQueue.response.parse(body);
    return body;
  }

  function ticketIssued(clinicId: string, branchId: string, more: object): GivenEvent {
    return {
      type: "QueueTicketIssued",
      data: {
        ticketId: randomUUID(),
        clinicId,
        branchId,
        appointmentId: null,
        visitId: null,
        animalId: null,
        ticketNumber: "1",
        queueDate: "2026-03-01",
        arrivalType: "walk_in",
        priority: "normal",
        estimatedWaitMinutes: null,
        notes: null,
        ...more,
      },
    };
  }

  it("getQueue returns active tickets of all days sorted by date and number, with a summary", async () => {
    const { clinicId, branchId, otherBranchId, userId } = await openClinic(api.given);
    const ids = Array.from({ length: 6 }, () => randomUUID()) as string[];
    const [nine, ten, called, old, done, gone] = ids as [string, string, string, string, string, string];
    const today = { queueDate: "2026-03-02" };
    await api.given(
      ticketIssued(clinicId, branchId, { ticketId: ten, ticketNumber: "10", priority: "urgent", ...today }),
      ticketIssued(clinicId, branchId, { ticketId: nine, ticketNumber: "9", ...today }),
      ticketIssued(clinicId, branchId, { ticketId: called, ticketNumber: "11", ...today }),
      ticketIssued(clinicId, branchId, { ticketId: old, ticketNumber: "99" }),
      ticketIssued(clinicId, branchId, { ticketId: done, ...today }),
      ticketIssued(clinicId, branchId, { ticketId: gone, ...today }),
      ticketIssued(clinicId, otherBranchId, today),
      { type: "QueueTicketCalled", data: { ticketId: called }, at: "2026-03-02T09:00:00.000Z" },
      { type: "QueueTicketCompleted", data: { ticketId: done } },
      { type: "QueueTicketCancelled", data: { ticketId: gone } },
    );
    const { tickets, summary, context } = await queue(userId);
    expect(context).to.deep.equal({ clinicId, branchId });
    expect(tickets.map(({ id }: { id: string }) => id)).to.deep.equal([old, nine, ten, called]);
    expect(summary).to.deep.equal({ active: 4, waiting: 3, priority: 1 });
    expect(tickets[3]).to.deep.equal({
      id: called,
      appointment_id: null,
      visit_id: null,
      animal_id: null,
      ticket_number: "11",
      queue_date: "2026-03-02",
      arrival_type: "walk_in",
      priority: "normal",
      status: "called",
      estimated_wait_minutes: null,
      checked_in_at: "2026-03-01T08:00:00.000Z",
      called_at: "2026-03-02T09:00:00.000Z",
      completed_at: null,
      notes: null,
      updated_at: "2026-03-02T09:00:00.000Z",
    });
  });

  it("getQueue omits no-show tickets", async () => {
    const { clinicId, branchId, userId } = await openClinic(api.given);
    const ticketId = randomUUID();
    await api.given(ticketIssued(clinicId, branchId, { ticketId }), {
      type: "QueueTicketMarkedNoShow",
      data: { ticketId },
    });
    expect((await queue(userId)).summary).to.deep.equal({ active: 0, waiting: 0, priority: 0 });
  });

  it("getQueue returns today's checked-in appointments that have an animal and no ticket", async () => {
    // In this time zone it is about noon, so appointments an hour earlier or later are on the same day.
    const offset = 12 - new Date().getUTCHours();
    const timezone = `Etc/GMT${offset > 0 ? "-" : "+"}${Math.abs(offset)}`;
    const { clinicId, branchId, otherBranchId, userId } = await openClinic(api.given, { timezone });
    const at = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString();
    const checkIn = async (scheduledAt: string, more: object = {}, branch = branchId) => {
      const appointmentId = randomUUID();
      const given = { appointmentId, animalId: randomUUID(), ...more };
      await api.given(appointmentRequested(clinicId, branch, scheduledAt, given), {
        type: "AppointmentCheckedIn",
        data: { appointmentId },
      });
      return appointmentId;
    };
    const animalId = randomUUID();
    const later = await checkIn(at(1));
    const earlier = await checkIn(at(-1), { animalId, reason: "Cough" });
    const ticketed = await checkIn(at(0));
    const completed = await checkIn(at(0));
    const consulting = await checkIn(at(2));
    await checkIn(at(-24));
    await checkIn(at(24));
    await checkIn(at(0), { animalId: null });
    await checkIn(at(0), {}, otherBranchId);
    await api.given(
      ticketIssued(clinicId, branchId, { appointmentId: ticketed }),
      appointmentRequested(clinicId, branchId, at(0), { animalId }),
      { type: "ConsultationStarted", data: { appointmentId: completed } },
      { type: "AppointmentCompleted", data: { appointmentId: completed } },
      { type: "ConsultationStarted", data: { appointmentId: consulting } },
    );
    const { legacyAppointmentQueue: queued } = await queue(userId);
    expect(queued.map(({ id }: { id: string }) => id)).to.deep.equal([earlier, later, consulting]);
    expect(queued[0]).to.deep.include({
      animal_id: animalId,
      duration_minutes: 30,
      reason: "Cough",
      status: "checked_in",
    });
  });

  it("getQueue requires a session, a membership and operational access", async () => {
    const path = "/api/v1/queue";
    expect((await api.get(path)).status).to.equal(401);
    expect((await api.get(path, randomUUID())).body.error).to.equal("no_active_membership");
    const { clinicId, userId } = await openClinic(api.given);
    await api.given({ type: "ClinicSuspended", data: { clinicId, reason: "test" } });
    expect((await api.get(path, userId)).body.error).to.equal("operational_access_denied");
  });
});
