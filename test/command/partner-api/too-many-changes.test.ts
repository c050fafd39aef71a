import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import type { PartnerResponse } from "../../support/partner.ts";
import { startPartnerApi } from "../../support/partner-api.ts";
import { createPlainLog } from "../../support/plain-log.ts";

const MAX_CHANGES = 500;

it("a move beyond 500 events returns 409, but the appointment can be read, confirmed, cancelled and created again", async () => {
  const api = await startPartnerApi();
  const client = connectEventStore(api.eventstoreUrl, "test");
  const log = createPlainLog(client);
  const partner = await api.createPartner();
  const { sandbox } = (await partner.request("GET", "/sandbox")).body;
  const clinicHeaders = { "X-SERVICE-Clinic-ID": sandbox.clinicId };
  const [headers, scheduledAt] = [{ ...clinicHeaders, "Idempotency-Key": randomUUID() }, "2099-01-01T08:00:00Z"];
  const body = { branchId: sandbox.branches[0].id, animalId: sandbox.animals[0].id, scheduledAt };
  const create = () => partner.request("POST", "/appointments", { headers, body });
  const created = await create();
  const { id } = created.body.appointment;
  const getOutcome = ({ status, body }: PartnerResponse) => [status, body.error ?? body.appointment?.revision];
  const change = async (path: string, body: object) =>
    getOutcome(await partner.request("POST", `/appointments/${id}/${path}`, { body }));
  const move = (day: number) => change("reschedule", { scheduledAt: `2098-01-1${day}T08:00:00Z` });

  /** Appends moves without the limit on changes, until the stream has `length` events. */
  async function lengthen(length: number): Promise<void> {
    const { stream, revision, metadata } = (await log.readLast(`appointment-${id}`))!;
    const moves = Array.from({ length: length - Number(revision) - 1 }, (_, index) => {
      const time = new Date(Date.UTC(2097, 1) + (Number(revision) + index) * 60_000).toISOString();
      const data = { appointmentId: id, scheduledAt: time, durationMinutes: 30, reason: null };
      return { id: randomUUID(), event: { type: "AppointmentRescheduled", data } as const, metadata };
    });
    await log.append(stream, revision, moves);
  }
  async function countLongStreamChanges(): Promise<number> {
    const text = await (await fetch(`${api.command.url}/metrics`)).text();
    return Number(/^event_log_long_stream_changes_total{category="appointment"} (\d+)$/m.exec(text)?.[1]);
  }

  await lengthen(MAX_CHANGES / 2 - 2);
  await move(0);
  expect(await countLongStreamChanges()).to.equal(0);
  await lengthen(MAX_CHANGES - 1);
  expect(await move(1)).to.deep.equal([200, MAX_CHANGES - 1]);
  expect(await move(2)).to.deep.equal([409, "too_many_changes"]);
  expect(await move(1), "a move that changes nothing").to.deep.equal([200, MAX_CHANGES - 1]);
  expect(await countLongStreamChanges()).to.equal(2);
  expect(await change("transitions", { to: "confirmed" })).to.deep.equal([200, MAX_CHANGES]);
  await lengthen(2 * MAX_CHANGES);
  expect(await move(3)).to.deep.equal([409, "too_many_changes"]);
  expect(await change("transitions", { to: "cancelled" })).to.deep.equal([200, 2 * MAX_CHANGES]);
  const repeated = await create();
  expect([repeated.status, repeated.body]).to.deep.equal([201, created.body]);
  const { appointment } = (await partner.request("GET", `/appointments/${id}`, { headers: clinicHeaders })).body;
  expect(appointment).to.include({ status: "cancelled", revision: 2 * MAX_CHANGES });
  const { events } = (await partner.request("GET", "/events?limit=5", { headers: clinicHeaders })).body;
  expect(events.at(-1).data.appointment).to.include({ id });
  expect((await partner.request("POST", "/sandbox/reset")).status).to.equal(200);
  expect(await change("transitions", { to: "cancelled" })).to.deep.equal([404, "appointment_not_found"]);
  await client.dispose();
  await api.stop();
});
