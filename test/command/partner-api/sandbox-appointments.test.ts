import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { eventually } from "../../support/eventually.ts";
import type { PartnerResponse } from "../../support/partner.ts";
import { type Partner, startPartnerApi } from "../../support/partner-api.ts";
import { useResource } from "../../support/resources.ts";

const DAY_MS = 86_400_000;
const toTime = (days: number) => new Date(Date.now() + days * DAY_MS).toISOString();

describe("changes of appointments in the sandbox", () => {
  const api = useResource(startPartnerApi);
  let partner: Partner;
  // biome-ignore lint/suspicious/noExplicitAny: the API's responses have no type in tests
  let sandbox: any;

  beforeEach(async () => {
    partner = await api.createPartner();
    sandbox = (await partner.request("GET", "/sandbox")).body.sandbox;
  });

  const clinicHeaders = () => ({ "X-SERVICE-Clinic-ID": sandbox.clinicId });
  async function createAppointment(): Promise<string> {
    const { body } = await partner.request("POST", "/appointments", {
      headers: { ...clinicHeaders(), "Idempotency-Key": randomUUID() },
      body: {
        branchId: sandbox.branches[0].id,
        animalId: sandbox.animals[0].id,
        scheduledAt: toTime(3),
        notes: "Limps",
      },
    });
    return body.appointment.id;
  }
  const change = (id: string, to: string, caller = partner) =>
    caller.request("POST", `/appointments/${id}/transitions`, { body: { to } });
  const move = (id: string, body: object) => partner.request("POST", `/appointments/${id}/reschedule`, { body });
  const getResult = ({ status, body }: PartnerResponse) =>
    status === 200 ? [body.appointment.status, body.appointment.revision] : [status, body.error];

  it("an appointment in the sandbox passes through all statuses of a visit", async () => {
    const id = await createAppointment();
    const statuses = ["confirmed", "checked_in", "waiting", "in_consultation", "completed"];
    for (const [index, status] of statuses.entries())
      expect(getResult(await change(id, status))).to.deep.equal([status, index + 1]);
    const { body } = await partner.request("GET", `/appointments/${id}`, { headers: clinicHeaders() });
    expect(body.appointment).to.include({ status: "completed", revision: 5, notes: "Limps" });
  });

  it("a sandbox appointment that is not due can be marked as a no-show, and a repeated transition changes nothing", async () => {
    const id = await createAppointment();
    await change(id, "confirmed");
    for (let count = 0; count < 2; count += 1)
      expect(getResult(await change(id, "no_show"))).to.deep.equal(["no_show", 2]);
  });

  it("a sandbox appointment can be moved to a future time", async () => {
    const id = await createAppointment();
    const scheduledAt = toTime(5);
    const { status, body } = await move(id, { scheduledAt, durationMinutes: 45 });
    expect([status, body.appointment.scheduledAt, body.appointment.durationMinutes]).to.eql([200, scheduledAt, 45]);
    const refused = await move(id, { scheduledAt: toTime(-1) });
    expect([...getResult(refused), refused.body.details]).to.deep.equal([
      422,
      "validation_failed",
      [{ path: "scheduledAt", message: "must be in the future" }],
    ]);
    expect(getResult(await move(id, {}))).to.deep.equal([422, "validation_failed"]);
  });

  it("an appointment of the fixture cannot be changed", async () => {
    const query = `from=${toTime(-1)}&to=${toTime(20)}`;
    const { body } = await partner.request("GET", `/appointments?${query}`, { headers: clinicHeaders() });
    const { id } = body.appointments[0];
    expect(getResult(await change(id, "confirmed"))).to.deep.equal([409, "fixture_appointment"]);
    expect(getResult(await move(id, { scheduledAt: toTime(5) }))).to.deep.equal([409, "fixture_appointment"]);
  });

  it("another application, an unknown id and an appointment from before a reset get 404", async () => {
    const id = await createAppointment();
    const stranger = await api.createPartner();
    expect(getResult(await change(id, "confirmed", stranger))).to.deep.equal([404, "appointment_not_found"]);
    expect(getResult(await change(randomUUID(), "confirmed"))).to.deep.equal([404, "appointment_not_found"]);
    expect(getResult(await change("x", "confirmed"))).to.deep.equal([404, "appointment_not_found"]);
    await partner.request("POST", "/sandbox/reset");
    expect(getResult(await change(id, "confirmed"))).to.deep.equal([404, "appointment_not_found"]);
  });

  it("in production, changes of appointments return 403 sandbox_only", async () => {
    const productionPartner = await api.createPartner("production");
    expect(getResult(await change(randomUUID(), "confirmed", productionPartner))).to.eql([403, "sandbox_only"]);
  });

  it("concurrent changes of one appointment follow each other", async () => {
    const id = await createAppointment();
    const responses = await Promise.all([change(id, "confirmed"), change(id, "confirmed"), change(id, "cancelled")]);
    expect(responses.filter(({ status }) => status === 200)).to.have.length.above(1);
    await eventually("the final status", async () => {
      const { body } = await partner.request("GET", `/appointments/${id}`, { headers: clinicHeaders() });
      return body.appointment.status === "cancelled";
    });
  });
});
