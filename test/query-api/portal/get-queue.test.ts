import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { expect } from "chai";
import type Koa from "koa";
import pg from "pg";
import { createRowReader, type QueryState } from "../../../query-api/http/read.ts";
import { getQueue } from "../../../query-api/portal/queue.ts";
import { createPortalRouter } from "../../../query-api/portal/router.ts";
import { toInstant as formatInstant } from "../../../shared/domain/time/rfc3339.ts";
import {
  appointmentRequested,
  createIds,
  membershipGranted,
  openClinic,
  queueTicketIssued,
} from "../../support/clinics.ts";
import { listenOnLoopback } from "../../support/loopback.ts";
import { setUpQueryApi } from "../../support/query-api.ts";
import type { GivenEvent } from "../../support/read-models.ts";
import { createSilentApp } from "../../support/silent-app.ts";

describe("getQueue", () => {
  const api = setUpQueryApi();

  const readQueue = (userId: string) => api.read("/api/v1/queue", userId);

  const ticketIssued = (clinicId: string, branchId: string, fields: object) =>
    queueTicketIssued({ ticketId: randomUUID(), clinicId, branchId, ...fields });

  it("getQueue returns active tickets of all days sorted by date and number, with a summary", async () => {
    const { clinicId, branchId, otherBranchId, userId } = await openClinic(api.given);
    const [
      nineTicketId,
      tenTicketId,
      calledTicketId,
      oldTicketId,
      completedTicketId,
      cancelledTicketId,
      absentTicketId,
    ] = createIds();
    const todayFields = { queueDate: "2026-03-02" };
    await api.given(
      ticketIssued(clinicId, branchId, {
        ticketId: tenTicketId,
        ticketNumber: "10",
        priority: "urgent",
        ...todayFields,
      }),
      ticketIssued(clinicId, branchId, { ticketId: nineTicketId, ticketNumber: "9", ...todayFields }),
      ticketIssued(clinicId, branchId, { ticketId: calledTicketId, ticketNumber: "11", ...todayFields }),
      ticketIssued(clinicId, branchId, { ticketId: oldTicketId, ticketNumber: "99" }),
      ticketIssued(clinicId, branchId, { ticketId: completedTicketId, ...todayFields }),
      ticketIssued(clinicId, branchId, { ticketId: cancelledTicketId, ...todayFields }),
      ticketIssued(clinicId, branchId, { ticketId: absentTicketId, ...todayFields }),
      ticketIssued(clinicId, otherBranchId, todayFields),
      { type: "QueueTicketCalled", data: { ticketId: calledTicketId }, at: "2026-03-02T09:00:00.000Z" },
      { type: "QueueTicketCompleted", data: { ticketId: completedTicketId } },
      { type: "QueueTicketCancelled", data: { ticketId: cancelledTicketId } },
      { type: "QueueTicketMarkedNoShow", data: { ticketId: absentTicketId } },
    );
    const { tickets, summary, context } = await readQueue(userId);
    expect(context).to.deep.equal({ clinicId, branchId });
    expect(tickets.map(({ id }: { id: string }) => id)).to.deep.equal([
      oldTicketId,
      nineTicketId,
      tenTicketId,
      calledTicketId,
    ]);
    expect(summary).to.deep.equal({ active: 4, waiting: 3, priority: 1 });
    expect(tickets[3]).to.deep.equal({
      id: calledTicketId,
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

  const checkedIn = (
    { clinicId, branchId }: { clinicId: string; branchId: string },
    scheduledAt: string,
    details: { appointmentId?: string } = {},
  ): GivenEvent[] => {
    const appointmentId = details.appointmentId ?? randomUUID();
    return [
      appointmentRequested(clinicId, branchId, scheduledAt, { animalId: randomUUID(), ...details, appointmentId }),
      { type: "AppointmentCheckedIn", data: { appointmentId } },
    ];
  };

  it("getQueue returns today's checked-in appointments that have an animal and no ticket", async () => {
    // In this time zone it is about noon, so appointments an hour earlier or later are on the same day.
    const offsetHours = 12 - new Date().getUTCHours();
    const timezone = `Etc/GMT${offsetHours > 0 ? "-" : "+"}${Math.abs(offsetHours)}`;
    const { clinicId, branchId, otherBranchId, userId } = await openClinic(api.given, { timezone });
    const toInstant = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString();
    const checkIn = async (scheduledAt: string, fields: object = {}, atBranchId = branchId) => {
      const appointmentId = randomUUID();
      await api.given(...checkedIn({ clinicId, branchId: atBranchId }, scheduledAt, { ...fields, appointmentId }));
      return appointmentId;
    };
    const animalId = randomUUID();
    const laterId = await checkIn(toInstant(1));
    const earlierId = await checkIn(toInstant(-1), { animalId, reason: "Cough" });
    const ticketedId = await checkIn(toInstant(0));
    const completedId = await checkIn(toInstant(0));
    const consultingId = await checkIn(toInstant(2));
    await checkIn(toInstant(-24));
    await checkIn(toInstant(24));
    await checkIn(toInstant(0), { animalId: null });
    await checkIn(toInstant(0), {}, otherBranchId);
    await api.given(
      ticketIssued(clinicId, branchId, { appointmentId: ticketedId }),
      appointmentRequested(clinicId, branchId, toInstant(0), { animalId }),
      { type: "ConsultationStarted", data: { appointmentId: completedId } },
      { type: "AppointmentCompleted", data: { appointmentId: completedId } },
      { type: "ConsultationStarted", data: { appointmentId: consultingId } },
    );
    const { legacyAppointmentQueue: queuedAppointments } = await readQueue(userId);
    expect(queuedAppointments.map(({ id }: { id: string }) => id)).to.deep.equal([earlierId, laterId, consultingId]);
    expect(queuedAppointments[0]).to.deep.include({
      animal_id: animalId,
      duration_minutes: 30,
      reason: "Cough",
      status: "checked_in",
    });
  });

  it("getQueue returns the appointments of the day in the selected clinic's time zone, also after another selection", async () => {
    // In one time zone it is about noon, in the other one about half past midnight.
    const utcHour = new Date().getUTCHours();
    const [noonZone, midnightZone] = [12 - utcHour, utcHour > 12 ? 24 - utcHour : -utcHour].map(
      (hours) => `Etc/GMT${hours > 0 ? "-" : "+"}${Math.abs(hours)}`,
    );
    const noonClinic = await openClinic(api.given, { timezone: noonZone! });
    const midnightClinic = await openClinic(api.given, { timezone: midnightZone! });
    const { userId } = noonClinic;
    await api.given(membershipGranted(midnightClinic.clinicId, userId));
    const [soon, twoHoursAgo] = [5, -120].map((minutes) => formatInstant(Date.now() + minutes * 60_000));
    for (const clinic of [noonClinic, midnightClinic])
      await api.given(...[soon!, twoHoursAgo!].flatMap((scheduledAt) => checkedIn(clinic, scheduledAt)));
    for (const [clinic, expectedTimes] of [
      [noonClinic, [twoHoursAgo, soon]],
      [midnightClinic, [soon]],
      [noonClinic, [twoHoursAgo, soon]],
    ] as const) {
      await api.given({ type: "ClinicSelected", data: { userId, clinicId: clinic.clinicId, branchId: null } });
      const { context, legacyAppointmentQueue: queuedAppointments } = await readQueue(userId);
      expect(context.clinicId).to.equal(clinic.clinicId);
      expect(queuedAppointments.map((one: { scheduled_at: string }) => one.scheduled_at)).to.deep.equal(expectedTimes);
    }
  });

  for (const [timezone, now, expectedTimes] of [
    // The clocks show midnight twice: first at 00:00Z, then at 01:00Z.
    ["Atlantic/Azores", "2026-10-25T12:00:00Z", ["2026-10-25T00:00:00.000Z", "2026-10-26T00:59:00.000Z"]],
    // The clocks skip midnight: the day starts at 01:00.
    ["Asia/Beirut", "2026-03-29T12:00:00Z", ["2026-03-28T22:00:00.000Z", "2026-03-29T20:59:00.000Z"]],
  ] as const)
    it(`getQueue returns the appointments of the whole day in ${timezone}, on which the clocks change at midnight`, async () => {
      const { clinicId, branchId, userId } = await openClinic(api.given, { timezone });
      const [firstTime, lastTime] = expectedTimes.map((time) => Date.parse(time)) as [number, number];
      const timesMs = [firstTime - 60_000, firstTime, lastTime, lastTime + 60_000];
      await api.given(...timesMs.flatMap((timeMs) => checkedIn({ clinicId, branchId }, formatInstant(timeMs))));
      const queuedAppointments = await readAppointmentsAt(now, userId);
      expect(queuedAppointments.map(({ scheduled_at }) => scheduled_at)).to.deep.equal(expectedTimes);
    });

  /** Sends a request to an application whose clock shows a given time. */
  async function readAppointmentsAt(now: string, userId: string) {
    const pool = new pg.Pool({ connectionString: api.database.urls.query, max: 1 });
    const app = createSilentApp({ clock: () => Date.parse(now) }) as Koa<QueryState>;
    app.use((ctx, next) => {
      ctx.state.deadline = performance.now() + 10_000;
      return next();
    });
    const dependencies = { verifySession: async () => ({ userId }), readRow: createRowReader(pool) };
    app.use(createPortalRouter([getQueue], dependencies).routes());
    const { host } = await listenOnLoopback(createServer(app.callback()));
    try {
      const response = await fetch(`http://${host}${getQueue.path}`);
      const body = (await response.json()) as { legacyAppointmentQueue: { scheduled_at: string }[] };
      getQueue.response.parse(body);
      return body.legacyAppointmentQueue;
    } finally {
      await pool.end();
    }
  }
});
