import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { registerApplication } from "../../command/operations/application-operations.ts";
import { confirmAppointment } from "../../command/operations/appointment-operations.ts";
import { requestInstallation } from "../../command/operations/installation-operations.ts";
import { grantMembership, registerCustomer } from "../../command/operations/people-operations.ts";
import { resetSandbox } from "../../command/operations/sandbox-operations.ts";
import { derivePartnerAppointmentId } from "../../shared/domain/events/ids.ts";
import { eventually } from "../support/eventually.ts";
import { createClinic, operatorContext, type PartnerResponse, sendRequest } from "../support/partner.ts";
import { type Partner, type PartnerApi, startPartnerApi } from "../support/partner-api.ts";

const DAY = 86_400_000;
const scheduledAt = new Date(Date.now() + 3 * DAY).toISOString();

describe("sandbox", () => {
  let api: PartnerApi;

  before(async () => {
    api = await startPartnerApi();
  });

  after(() => api.stop());

  const stateOf = async (partner: Partner) => {
    const { status, body } = await partner.request("GET", "/sandbox");
    expect(status, JSON.stringify(body)).to.equal(200);
    return body.sandbox;
  };
  const reset = async (partner: Partner) => {
    const { status, body } = await partner.request("POST", "/sandbox/reset");
    expect(status, JSON.stringify(body)).to.equal(200);
    return body.sandbox;
  };
  const clinicHeader = (clinicId: string) => ({ "X-SERVICE-Clinic-ID": clinicId });

  /** Lists the appointments from 4 days ago to 20 days ahead. */
  const list = (partner: Partner, clinicId: string): Promise<PartnerResponse> => {
    const from = new Date(Date.now() - 4 * DAY).toISOString();
    const to = new Date(Date.now() + 20 * DAY).toISOString();
    return partner.request("GET", `/appointments?limit=250&from=${from}&to=${to}`, {
      headers: clinicHeader(clinicId),
    });
  };
  const idsIn = ({ body }: PartnerResponse): string[] => body.appointments.map(({ id }: { id: string }) => id);

  // biome-ignore lint/suspicious/noExplicitAny: the API's responses have no type in tests
  const create = (partner: Partner, sandbox: any, key: string = randomUUID()) =>
    partner.request("POST", "/appointments", {
      headers: { ...clinicHeader(sandbox.clinicId), "Idempotency-Key": key },
      body: {
        branchId: sandbox.branches[0].id,
        animalId: sandbox.animals[0].id,
        scheduledAt,
      },
    });

  it("a new application has an approved sandbox that contains the fixture data", async () => {
    const partner = await api.partner();
    const sandbox = await stateOf(partner);
    expect(sandbox).to.include({
      generation: 1,
      day: new Date().toISOString().slice(0, 10),
      appointments: 7,
    });
    expect(sandbox.branches).to.have.length(2);
    expect(sandbox.animals.map(({ name }: { name: string }) => name)).to.deep.equal([
      "Biscuit",
      "Clover",
      "Misty",
      "Pepper",
    ]);
    const context = await partner.request("GET", "/clinic/context", {
      headers: clinicHeader(sandbox.clinicId),
    });
    expect(context.status).to.equal(200);
    expect(context.body.installation.branchIds).to.equal(null);
    const { status, body } = await create(partner, sandbox);
    expect(status, JSON.stringify(body)).to.equal(201);
    const listed = await list(partner, sandbox.clinicId);
    expect(listed.body.appointments).to.have.length(8);
    expect(new Set(listed.body.appointments.map((one: { status: string }) => one.status))).to.deep.equal(
      new Set(["completed", "no_show", "confirmed", "requested", "cancelled"]),
    );
    expect((await stateOf(partner)).appointments).to.equal(8);
  });

  it("two resets of a sandbox on the same day create byte-identical data", async () => {
    const partner = await api.partner();
    const snapshot = async () => {
      const { generation, resetAt, ...sandbox } = await reset(partner);
      const { generation: read, resetAt: readAt, ...state } = await stateOf(partner);
      expect([read, readAt, state]).to.deep.equal([generation, resetAt, sandbox]);
      const path = "/appointments?from=2000-01-01T00:00:00Z";
      const lists = await Promise.all([
        list(partner, sandbox.clinicId),
        partner.request("GET", path, { headers: clinicHeader(sandbox.clinicId) }),
      ]);
      const context = await partner.request("GET", "/clinic/context", {
        headers: clinicHeader(sandbox.clinicId),
      });
      const appointments = lists[0].body.appointments;
      return { generation, sandbox, bytes: JSON.stringify([sandbox, appointments, context.text]) };
    };
    const first = await snapshot();
    const created = await create(partner, first.sandbox);
    expect(created.status).to.equal(201);
    expect(idsIn(await list(partner, first.sandbox.clinicId))).to.include(created.body.appointment.id);
    const second = await snapshot();
    expect(second.generation).to.equal(first.generation + 1);
    expect(second.bytes).to.equal(first.bytes);
  });

  it("a reset of a sandbox deletes idempotency keys and keeps webhook endpoints", async () => {
    const partner = await api.partner();
    const sandbox = await stateOf(partner);
    const first = await create(partner, sandbox, "the-same-key");
    const endpoint = await partner.request("POST", "/webhook-endpoints", {
      headers: clinicHeader(sandbox.clinicId),
      body: { url: "http://127.0.0.1:9/hook", events: ["appointment.created"] },
    });
    expect(endpoint.status).to.equal(201);
    expect((await create(partner, sandbox, "the-same-key")).headers.get("Idempotent-Replayed")).to.equal("true");
    await reset(partner);
    const second = await create(partner, sandbox, "the-same-key");
    expect([second.status, second.headers.get("Idempotent-Replayed")]).to.deep.equal([201, null]);
    expect(second.body.appointment.id).not.to.equal(first.body.appointment.id);
    const ids = idsIn(await list(partner, sandbox.clinicId));
    expect(ids).to.include(second.body.appointment.id).and.not.to.include(first.body.appointment.id);
    const { body } = await partner.request("GET", "/webhook-endpoints", {
      headers: clinicHeader(sandbox.clinicId),
    });
    expect(body.endpoints.map(({ id, status }: Record<string, string>) => [id, status])).to.deep.equal([
      [endpoint.body.endpoint.id, "active"],
    ]);
  });

  it("a read during concurrent resets and writes never mixes data from before and after a reset", async () => {
    const partner = await api.partner();
    const { clinicId, ...rest } = await stateOf(partner);
    const sandbox = { clinicId, ...rest };
    const fixture = idsIn(await list(partner, clinicId));
    const keys = Array.from({ length: 40 }, () => randomUUID());
    const generationOf = new Map<string, number>();
    for (const idempotencyKey of keys) {
      for (let sandboxGeneration = 1; sandboxGeneration <= 20; sandboxGeneration += 1) {
        const key = { environment: "sandbox" as const, sandboxGeneration, clinicId, idempotencyKey };
        generationOf.set(
          derivePartnerAppointmentId({ ...key, applicationId: partner.applicationId }),
          sandboxGeneration,
        );
      }
    }
    // Calls the operation directly, because the API has a rate limit.
    const resets = async () => {
      for (let count = 0; count < 8; count += 1) await resetSandbox(api.command.log, partner, operatorContext());
    };
    const creates = async () => {
      for (let index = 0; index < keys.length; index += 4) {
        const answers = await Promise.all(keys.slice(index, index + 4).map((key) => create(partner, sandbox, key)));
        for (const { status } of answers) expect(status).to.equal(201);
      }
    };
    const seen: string[][] = [];
    let done = false;
    const reads = async () => {
      while (!done && seen.length < 50) {
        const answer = await list(partner, clinicId);
        // On a busy machine, a read may return 503.
        if (answer.status !== 503) seen.push(idsIn(answer));
      }
    };
    const reading = reads();
    await Promise.all([resets(), resets(), creates()]);
    done = true;
    await reading;
    const last = await eventually("the last state is read", async () => {
      const answer = await list(partner, clinicId);
      return answer.status !== 503 && answer;
    });
    seen.push(idsIn(last));
    for (const ids of seen) {
      const made = ids.filter((id) => !fixture.includes(id));
      expect(ids.length - made.length).to.equal(fixture.length);
      expect(new Set(made.map((id) => generationOf.get(id))).size).to.be.at.most(1);
    }
    expect((await stateOf(partner)).generation).to.be.within(9, 17);
  });

  it("a sandbox cannot be accessed by another application or from production", async () => {
    const [partner, other] = [await api.partner(), await api.partner()];
    const [ours, theirs] = [await stateOf(partner), await stateOf(other)];
    const idsOf = ({ clinicId, branches, animals }: typeof ours) =>
      [clinicId, ...[...branches, ...animals].map(({ id }) => id)] as string[];
    expect(idsOf(ours).filter((id) => idsOf(theirs).includes(id))).to.deep.equal([]);
    for (const path of ["/clinic/context", "/appointments", "/webhook-endpoints"]) {
      const { status, body } = await partner.request("GET", path, { headers: clinicHeader(theirs.clinicId) });
      expect([status, body.error]).to.deep.equal([403, "installation_denied"]);
    }
    expect((await create(partner, theirs)).body.error).to.equal("installation_denied");
    expect((await create(partner, { ...theirs, clinicId: ours.clinicId })).status).to.equal(422);
    // The token, not the clinic header, selects the sandbox.
    const named = await partner.request("GET", "/sandbox", { headers: clinicHeader(theirs.clinicId) });
    expect(named.body.sandbox.clinicId).to.equal(ours.clinicId);
    const production = await api.partner("production");
    for (const [method, path] of [
      ["GET", "/sandbox"],
      ["POST", "/sandbox/reset"],
    ] as const) {
      const { status, body } = await production.request(method, path);
      expect([status, body.error]).to.deep.equal([403, "sandbox_only"]);
    }
    const clinic = await createClinic(api.command.log, "production");
    expect(
      (await partner.request("GET", "/clinic/context", { headers: clinicHeader(clinic.clinicId) })).status,
    ).to.equal(403);
    expect(
      (await production.request("GET", "/clinic/context", { headers: clinicHeader(ours.clinicId) })).status,
    ).to.equal(403);
    const reader = await api.partner("sandbox", ["clinic:read", "sandbox:read"]);
    expect((await reader.request("GET", "/sandbox")).status).to.equal(200);
    expect((await reader.request("POST", "/sandbox/reset")).body.error).to.equal("insufficient_scope");
  });

  it("operators can change appointments and grant memberships in a sandbox, but cannot add customers or installations", async () => {
    const { log } = api.command;
    const partner = await api.partner();
    const sandbox = await stateOf(partner);
    const { clinicId } = sandbox;
    const refused = (work: Promise<unknown>) =>
      work.then(
        () => "done",
        (error: { code?: string }) => error.code,
      );
    const context = operatorContext();
    const contact = { fullName: "Ada", phone: null, email: null, city: null };
    expect(await refused(registerCustomer(log, { customerId: randomUUID(), clinicId, ...contact }, context))).to.equal(
      "clinic_is_a_sandbox",
    );
    const other = await api.partner();
    expect(await refused(requestInstallation(log, { ...other, clinicId }, context))).to.equal("clinic_is_a_sandbox");
    const rights = { role: "owner" as const, permissions: [], branchAccess: "all" as const, branchIds: [] };
    const member = { membershipId: randomUUID(), userId: randomUUID(), staffId: null, acceptedAt: null };
    await grantMembership(log, { ...member, clinicId, ...rights }, context);
    const { body } = await create(partner, sandbox);
    const appointment = { clinicId, appointmentId: body.appointment.id };
    await confirmAppointment(log, appointment, context);
    await reset(partner);
    expect(await refused(confirmAppointment(log, appointment, context))).to.equal("appointment_not_found");
  });

  it("registering an existing application a second time fails and creates no second sandbox", async () => {
    const partner = await api.partner();
    const input = { ...partner, name: "Again", scopes: ["clinic:read" as const] };
    const error = await registerApplication(api.command.log, input, operatorContext()).catch((reason) => reason);
    expect(error).to.include({ code: "application_exists" });
    expect((await stateOf(partner)).generation).to.equal(1);
  });

  describe("log positions of write requests", () => {
    it("a read request with the log position of a write always returns the result of that write", async () => {
      const partner = await api.partner();
      const sandbox = await stateOf(partner);
      for (let round = 0; round < 10; round += 1) {
        const { body } = await create(partner, sandbox);
        expect(idsIn(await list(partner, sandbox.clinicId))).to.include(body.appointment.id);
      }
    });

    it("even without a log position, partners see their own writes and resets", async () => {
      const partner = await api.partner();
      const sandbox = await stateOf(partner);
      const { Authorization = "" } = partner.headers;
      const own = { Authorization, ...clinicHeader(sandbox.clinicId) };
      const base = `${api.queryUrl}/sandbox/v1`;
      for (let round = 2; round < 7; round += 1) {
        const { body } = await create(partner, sandbox);
        const path = `/appointments?from=${scheduledAt}`;
        expect(idsIn(await sendRequest("GET", base + path, own))).to.include(body.appointment.id);
        expect((await reset(partner)).generation).to.equal(round);
        expect((await sendRequest("GET", `${base}/sandbox`, own)).body.sandbox.generation).to.equal(round);
      }
    });

    it("a read request returns 503 read_model_behind if the read models do not reach the log position in time", async () => {
      const partner = await api.partner();
      const headers = { "X-SERVICE-Log-Position": "9000000000000000000" };
      const started = performance.now();
      const { status, body, headers: answered } = await partner.request("GET", "/sandbox", { headers });
      expect([status, body.error]).to.deep.equal([503, "read_model_behind"]);
      expect(answered.get("Retry-After")).to.equal("1");
      expect(performance.now() - started).to.be.within(1_500, 15_000);
    });

    it("a read request with an invalid log position returns 400 invalid_log_position", async () => {
      const partner = await api.partner();
      for (const given of ["-1", "x", "1, 2", "", "9".repeat(21)]) {
        const { status, body } = await partner.request("GET", "/sandbox", {
          headers: { "X-SERVICE-Log-Position": given },
        });
        expect([status, body.error], given).to.deep.equal([400, "invalid_log_position"]);
      }
    });
  });
});
