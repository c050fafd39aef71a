import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { confirmAppointment } from "../../command/operations/appointment-operations.ts";
import { registerCustomer } from "../../command/operations/customer-operations.ts";
import { requestInstallation } from "../../command/operations/installation-operations.ts";
import { grantMembership } from "../../command/operations/people-operations.ts";
import { resetSandbox } from "../../command/operations/sandbox-operations.ts";
import { derivePartnerAppointmentId } from "../../shared/domain/events/ids.ts";
import { eventually } from "../support/eventually.ts";
import { createClinic, createTestOperatorContext, type PartnerResponse, sendRequest } from "../support/partner.ts";
import { createSandboxAppointment, type Partner, startPartnerApi } from "../support/partner-api.ts";
import { useResource } from "../support/resources.ts";

const DAY_MS = 86_400_000;

describe("sandbox", () => {
  const api = useResource(startPartnerApi);

  const getSandbox = async (partner: Partner) => {
    const { status, body } = await partner.request("GET", "/sandbox");
    expect(status, JSON.stringify(body)).to.equal(200);
    return body.sandbox;
  };
  const requestReset = async (partner: Partner) => {
    const { status, body } = await partner.request("POST", "/sandbox/reset");
    expect(status, JSON.stringify(body)).to.equal(200);
    return body.sandbox;
  };
  const toClinicHeaders = (clinicId: string) => ({ "X-SERVICE-Clinic-ID": clinicId });
  const readClinic = (partner: Partner, path: string, clinicId: string) =>
    partner.request("GET", path, { headers: toClinicHeaders(clinicId) });

  /** Lists the appointments from 4 days ago until 20 days from now. */
  const listAppointments = (partner: Partner, clinicId: string): Promise<PartnerResponse> => {
    const from = new Date(Date.now() - 4 * DAY_MS).toISOString();
    const to = new Date(Date.now() + 20 * DAY_MS).toISOString();
    return readClinic(partner, `/appointments?limit=250&from=${from}&to=${to}`, clinicId);
  };
  const collectIds = ({ body }: PartnerResponse): string[] => body.appointments.map(({ id }: { id: string }) => id);

  it("a new application has an approved sandbox that contains the fixture data", async () => {
    const partner = await api.createPartner();
    const sandbox = await getSandbox(partner);
    expect(sandbox).to.include({ generation: 1, day: new Date().toISOString().slice(0, 10), appointments: 7 });
    expect(sandbox.branches).to.have.length(2);
    expect(sandbox.animals.map(({ name }: { name: string }) => name)).to.deep.equal([
      "Biscuit",
      "Clover",
      "Misty",
      "Pepper",
    ]);
    const contextResponse = await readClinic(partner, "/clinic/context", sandbox.clinicId);
    expect(contextResponse.status).to.equal(200);
    expect(contextResponse.body.installation.branchIds).to.equal(null);
    const { status, body } = await createSandboxAppointment(partner, sandbox);
    expect(status, JSON.stringify(body)).to.equal(201);
    const listResponse = await listAppointments(partner, sandbox.clinicId);
    expect(listResponse.body.appointments).to.have.length(8);
    expect(
      new Set(listResponse.body.appointments.map((appointment: { status: string }) => appointment.status)),
    ).to.deep.equal(new Set(["completed", "no_show", "confirmed", "requested", "cancelled"]));
    expect((await getSandbox(partner)).appointments).to.equal(8);
  });

  it("two resets of a sandbox on the same day create byte-identical data", async () => {
    const partner = await api.createPartner();
    const takeSnapshot = async () => {
      const { generation, resetAt, ...sandbox } = await requestReset(partner);
      const { generation: currentGeneration, resetAt: currentResetAt, ...currentSandbox } = await getSandbox(partner);
      expect([currentGeneration, currentResetAt, currentSandbox]).to.deep.equal([generation, resetAt, sandbox]);
      const path = "/appointments?from=2000-01-01T00:00:00Z";
      const listResponses = await Promise.all([
        listAppointments(partner, sandbox.clinicId),
        readClinic(partner, path, sandbox.clinicId),
      ]);
      const contextResponse = await readClinic(partner, "/clinic/context", sandbox.clinicId);
      const appointments = listResponses[0].body.appointments;
      return { generation, sandbox, bytes: JSON.stringify([sandbox, appointments, contextResponse.text]) };
    };
    const firstSnapshot = await takeSnapshot();
    const response = await createSandboxAppointment(partner, firstSnapshot.sandbox);
    expect(response.status).to.equal(201);
    expect(collectIds(await listAppointments(partner, firstSnapshot.sandbox.clinicId))).to.include(
      response.body.appointment.id,
    );
    const secondSnapshot = await takeSnapshot();
    expect(secondSnapshot.generation).to.equal(firstSnapshot.generation + 1);
    expect(secondSnapshot.bytes).to.equal(firstSnapshot.bytes);
  });

  it("a reset of a sandbox deletes idempotency keys and keeps webhook endpoints", async () => {
    const partner = await api.createPartner();
    const sandbox = await getSandbox(partner);
    const firstResponse = await createSandboxAppointment(partner, sandbox, {}, "the-same-key");
    const endpointResponse = await partner.request("POST", "/webhook-endpoints", {
      headers: toClinicHeaders(sandbox.clinicId),
      body: { url: "http://127.0.0.1:9/hook", events: ["appointment.created"] },
    });
    expect(endpointResponse.status).to.equal(201);
    expect(
      (await createSandboxAppointment(partner, sandbox, {}, "the-same-key")).headers.get("Idempotent-Replayed"),
    ).to.equal("true");
    await requestReset(partner);
    const secondResponse = await createSandboxAppointment(partner, sandbox, {}, "the-same-key");
    expect([secondResponse.status, secondResponse.headers.get("Idempotent-Replayed")]).to.deep.equal([201, null]);
    expect(secondResponse.body.appointment.id).not.to.equal(firstResponse.body.appointment.id);
    const ids = collectIds(await listAppointments(partner, sandbox.clinicId));
    expect(ids).to.include(secondResponse.body.appointment.id).and.not.to.include(firstResponse.body.appointment.id);
    const { body } = await readClinic(partner, "/webhook-endpoints", sandbox.clinicId);
    expect(body.endpoints.map(({ id, status }: Record<string, string>) => [id, status])).to.deep.equal([
      [endpointResponse.body.endpoint.id, "active"],
    ]);
  });

  it("a read during concurrent resets and writes never mixes data from before and after a reset", async () => {
    const partner = await api.createPartner();
    const sandbox = await getSandbox(partner);
    const { clinicId } = sandbox;
    const fixtureIds = collectIds(await listAppointments(partner, clinicId));
    const keys = Array.from({ length: 40 }, () => randomUUID());
    const generationsById = new Map<string, number>();
    for (const idempotencyKey of keys) {
      for (let sandboxGeneration = 1; sandboxGeneration <= 20; sandboxGeneration += 1) {
        const key = { environment: "sandbox" as const, sandboxGeneration, clinicId, idempotencyKey };
        generationsById.set(
          derivePartnerAppointmentId({ ...key, applicationId: partner.applicationId }),
          sandboxGeneration,
        );
      }
    }
    // Calls the operation directly, because the API has a rate limit.
    const resetRepeatedly = async () => {
      for (let count = 0; count < 8; count += 1)
        await resetSandbox(api.command.log, partner, createTestOperatorContext());
    };
    const createRepeatedly = async () => {
      for (let index = 0; index < keys.length; index += 4) {
        const responses = await Promise.all(
          keys.slice(index, index + 4).map((key) => createSandboxAppointment(partner, sandbox, {}, key)),
        );
        for (const { status } of responses) expect(status).to.equal(201);
      }
    };
    const idLists: string[][] = [];
    let isDone = false;
    const readRepeatedly = async () => {
      while (!isDone && idLists.length < 50) {
        const response = await listAppointments(partner, clinicId);
        // On a busy machine, a read may return 503.
        if (response.status !== 503) idLists.push(collectIds(response));
      }
    };
    const readLoop = readRepeatedly();
    await Promise.all([resetRepeatedly(), resetRepeatedly(), createRepeatedly()]);
    isDone = true;
    await readLoop;
    const lastResponse = await eventually("the last state is read", async () => {
      const response = await listAppointments(partner, clinicId);
      return response.status !== 503 && response;
    });
    idLists.push(collectIds(lastResponse));
    for (const ids of idLists) {
      const createdIds = ids.filter((id) => !fixtureIds.includes(id));
      expect(ids.length - createdIds.length).to.equal(fixtureIds.length);
      expect(new Set(createdIds.map((id) => generationsById.get(id))).size).to.be.at.most(1);
    }
    expect((await getSandbox(partner)).generation).to.be.within(9, 17);
  });

  it("a sandbox cannot be accessed by another application or from production", async () => {
    const [partner, otherPartner] = [await api.createPartner(), await api.createPartner()];
    const [ownSandbox, otherSandbox] = [await getSandbox(partner), await getSandbox(otherPartner)];
    const listIds = ({ clinicId, branches, animals }: typeof ownSandbox) =>
      [clinicId, ...[...branches, ...animals].map(({ id }) => id)] as string[];
    expect(listIds(ownSandbox).filter((id) => listIds(otherSandbox).includes(id))).to.deep.equal([]);
    for (const path of ["/clinic/context", "/appointments", "/webhook-endpoints"]) {
      const { status, body } = await readClinic(partner, path, otherSandbox.clinicId);
      expect([status, body.error]).to.deep.equal([403, "installation_denied"]);
    }
    expect((await createSandboxAppointment(partner, otherSandbox)).body.error).to.equal("installation_denied");
    expect(
      (await createSandboxAppointment(partner, { ...otherSandbox, clinicId: ownSandbox.clinicId })).status,
    ).to.equal(422);
    // The token, not the clinic header, selects the sandbox.
    const response = await readClinic(partner, "/sandbox", otherSandbox.clinicId);
    expect(response.body.sandbox.clinicId).to.equal(ownSandbox.clinicId);
    const productionPartner = await api.createPartner("production");
    for (const [method, path] of [
      ["GET", "/sandbox"],
      ["POST", "/sandbox/reset"],
    ] as const) {
      const { status, body } = await productionPartner.request(method, path);
      expect([status, body.error]).to.deep.equal([403, "sandbox_only"]);
    }
    const clinic = await createClinic(api.command.log, "production");
    expect((await readClinic(partner, "/clinic/context", clinic.clinicId)).status).to.equal(403);
    expect((await readClinic(productionPartner, "/clinic/context", ownSandbox.clinicId)).status).to.equal(403);
    const readOnlyPartner = await api.createPartner("sandbox", ["clinic:read", "sandbox:read"]);
    expect((await readOnlyPartner.request("GET", "/sandbox")).status).to.equal(200);
    expect((await readOnlyPartner.request("POST", "/sandbox/reset")).body.error).to.equal("insufficient_scope");
  });

  it("operators can change appointments and grant memberships in a sandbox, but cannot add customers or installations", async () => {
    const { log } = api.command;
    const partner = await api.createPartner();
    const sandbox = await getSandbox(partner);
    const { clinicId } = sandbox;
    const getErrorCode = (promise: Promise<unknown>) =>
      promise.then(
        () => "done",
        (error: { code?: string }) => error.code,
      );
    const context = createTestOperatorContext();
    const contact = { fullName: "Ada", phone: null, email: null, city: null };
    expect(
      await getErrorCode(registerCustomer(log, { customerId: randomUUID(), clinicId, ...contact }, context)),
    ).to.equal("clinic_is_a_sandbox");
    const otherPartner = await api.createPartner();
    expect(await getErrorCode(requestInstallation(log, { ...otherPartner, clinicId }, context))).to.equal(
      "clinic_is_a_sandbox",
    );
    const rights = { role: "owner" as const, permissions: [], branchAccess: "all" as const, branchIds: [] };
    const membership = { membershipId: randomUUID(), userId: randomUUID(), staffId: null, acceptedAt: null };
    await grantMembership(log, { ...membership, clinicId, ...rights }, context);
    const { body } = await createSandboxAppointment(partner, sandbox);
    const appointment = { clinicId, appointmentId: body.appointment.id };
    await confirmAppointment(log, appointment, context);
    await requestReset(partner);
    expect(await getErrorCode(confirmAppointment(log, appointment, context))).to.equal("appointment_not_found");
  });

  it("a read request with the log position of a write always returns the result of that write", async () => {
    const partner = await api.createPartner();
    const sandbox = await getSandbox(partner);
    for (let round = 0; round < 10; round += 1) {
      const { body, headers } = await createSandboxAppointment(partner, sandbox);
      const [event] = await api.command.log.read(`appointment-${body.appointment.id}`);
      // Writes wait for the read models, too. So a wrong position would show only if the read models are behind.
      expect(headers.get("X-SERVICE-Log-Position")).to.equal(String(event?.position));
      expect(collectIds(await listAppointments(partner, sandbox.clinicId))).to.include(body.appointment.id);
    }
  });

  it("even without a log position, partners see their own writes and resets", async () => {
    const partner = await api.createPartner();
    const sandbox = await getSandbox(partner);
    const { Authorization = "" } = partner.headers;
    const ownHeaders = { Authorization, ...toClinicHeaders(sandbox.clinicId) };
    const baseUrl = `${api.queryUrl}/sandbox/v1`;
    for (let round = 2; round < 7; round += 1) {
      const { body } = await createSandboxAppointment(partner, sandbox);
      const path = `/appointments?from=${body.appointment.scheduledAt}`;
      expect(collectIds(await sendRequest("GET", baseUrl + path, ownHeaders))).to.include(body.appointment.id);
      expect((await requestReset(partner)).generation).to.equal(round);
      expect((await sendRequest("GET", `${baseUrl}/sandbox`, ownHeaders)).body.sandbox.generation).to.equal(round);
    }
  });
});
