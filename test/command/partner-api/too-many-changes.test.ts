import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { createEventLog, type EventLog } from "../../../shared/eventstore/log.ts";
import type { PartnerResponse } from "../../support/partner.ts";
import { type Partner, type PartnerApi, startPartnerApi } from "../../support/partner-api.ts";
import { createPlainLog } from "../../support/plain-log.ts";

const MAX_CHANGES = 500;

/** Length of a stream from before the limit. */
const LONG_LENGTH = 2_000;

describe("an appointment in the sandbox that was changed too often", () => {
  let api: PartnerApi;
  let client: EventStoreDBClient;
  let partner: Partner;
  let clinicHeaders: Record<string, string>;
  let createRequest: { headers: Record<string, string>; body: object };

  before(async () => {
    api = await startPartnerApi();
    client = connectEventStore(api.eventstoreUrl, "test");
  });
  after(async () => {
    await client.dispose();
    await api.stop();
  });
  beforeEach(async () => {
    partner = await api.createPartner();
    const { sandbox } = (await partner.request("GET", "/sandbox")).body;
    clinicHeaders = { "X-SERVICE-Clinic-ID": sandbox.clinicId };
    createRequest = {
      headers: { ...clinicHeaders, "Idempotency-Key": randomUUID() },
      body: { branchId: sandbox.branches[0].id, animalId: sandbox.animals[0].id, scheduledAt: "2099-01-01T08:00:00Z" },
    };
  });

  const create = () => partner.request("POST", "/appointments", createRequest);
  const change = (id: string, to: string) =>
    partner.request("POST", `/appointments/${id}/transitions`, { body: { to } });
  const move = (id: string, day: number) =>
    partner.request("POST", `/appointments/${id}/reschedule`, {
      body: { scheduledAt: `2098-01-${String(day).padStart(2, "0")}T08:00:00Z` },
    });
  const getOutcome = ({ status, body }: PartnerResponse) => [status, body.error ?? body.appointment?.revision];

  /** Appends moves to the stream of an appointment, up to a number of events. */
  async function lengthen(log: EventLog, appointmentId: string, length: number): Promise<void> {
    const stream = `appointment-${appointmentId}`;
    for (;;) {
      const { revision, metadata } = (await log.readLast(stream))!;
      const count = Math.min(100, length - Number(revision) - 1);
      if (count === 0) return;
      const moves = Array.from({ length: count }, (_, index) => {
        const scheduledAt = new Date(Date.UTC(2099, 1) + (Number(revision) + index) * 60_000).toISOString();
        const data = { appointmentId, scheduledAt, durationMinutes: 30, reason: null };
        return { id: randomUUID(), event: { type: "AppointmentRescheduled", data } as const, metadata };
      });
      await log.append(stream, revision, moves);
    }
  }

  async function countLongStreamChanges(): Promise<number> {
    const text = await (await fetch(`${api.command.url}/metrics`)).text();
    return Number(/^event_log_long_stream_changes_total{category="appointment"} (\d+)$/m.exec(text)?.[1]);
  }

  it("a move beyond 500 events returns 409, but the appointment can be read, confirmed, cancelled and created again", async () => {
    const { body: created } = await create();
    const { id } = created.appointment;
    await lengthen(createEventLog(client), id, MAX_CHANGES - 1);
    const countBefore = await countLongStreamChanges();
    expect(getOutcome(await move(id, 1))).to.deep.equal([200, MAX_CHANGES - 1]);
    expect(getOutcome(await move(id, 2))).to.deep.equal([409, "too_many_changes"]);
    expect(getOutcome(await move(id, 1)), "a move that changes nothing").to.deep.equal([200, MAX_CHANGES - 1]);
    expect(await countLongStreamChanges()).to.equal(countBefore + 2);
    expect(getOutcome(await change(id, "confirmed"))).to.deep.equal([200, MAX_CHANGES]);
    expect(getOutcome(await move(id, 3))).to.deep.equal([409, "too_many_changes"]);
    expect(getOutcome(await change(id, "cancelled"))).to.deep.equal([200, MAX_CHANGES + 1]);
    const { status, body } = await create();
    expect([status, body]).to.deep.equal([201, created]);
    expect((await partner.request("POST", "/sandbox/reset")).status).to.equal(200);
    expect(getOutcome(await change(id, "cancelled"))).to.deep.equal([404, "appointment_not_found"]);
  });

  it("an appointment that is already longer can still be read and cancelled", async () => {
    const { id } = (await create()).body.appointment;
    await lengthen(createPlainLog(client), id, LONG_LENGTH);
    expect(getOutcome(await move(id, 1))).to.deep.equal([409, "too_many_changes"]);
    expect(getOutcome(await change(id, "cancelled"))).to.deep.equal([200, LONG_LENGTH]);
    const { body } = await partner.request("GET", `/appointments/${id}`, { headers: clinicHeaders });
    expect(body.appointment).to.include({ status: "cancelled", revision: LONG_LENGTH });
    const { body: feed } = await partner.request("GET", "/events?limit=5", { headers: clinicHeaders });
    expect(feed.events.at(-1).data.appointment).to.include({ id });
  });
});
