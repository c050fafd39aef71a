import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { createLinkCode, redeemLinkCode, withdrawLink } from "../../../command/operations/animal-link-operations.ts";
import { registerAnimal, registerCustomer } from "../../../command/operations/customer-operations.ts";
import { createLinkCodes } from "../../../command/operations/link-codes.ts";
import { recordErasure } from "../../../command/operations/personal-data/record-erasure.ts";
import { loadSandbox } from "../../../command/operations/sandbox-operations.ts";
import { toStreamName } from "../../../shared/domain/events/category.ts";
import { animalConsentStreams, type ConsentCoverage } from "../../../shared/domain/events/consent.ts";
import type { AnimalAccess } from "../../../shared/domain/events/partner.ts";
import { SANDBOX_LINK_CODES } from "../../../shared/domain/partner/sandbox-link-code.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { PERSONAL_DATA_KEYS } from "../../support/data-keys.ts";
import { eventually } from "../../support/eventually.ts";
import {
  createClinic,
  createTestOperatorContext,
  installApplication,
  type PartnerResponse,
  type TestClinic,
} from "../../support/partner.ts";
import { type Partner, startPartnerApi } from "../../support/partner-api.ts";
import { createPlainLog } from "../../support/plain-log.ts";
import { useResource } from "../../support/resources.ts";

const linkCodes = createLinkCodes(JSON.parse(PERSONAL_DATA_KEYS));

describe("animal links", () => {
  const api = useResource(startPartnerApi);

  interface Installation {
    partner: Partner;
    clinic: TestClinic;
  }

  async function install(animalAccess: AnimalAccess, clinic?: TestClinic): Promise<Installation> {
    const { log } = api.command;
    const installedClinic = clinic ?? (await createClinic(log));
    const partner = await api.createPartner("production");
    await installApplication(log, partner, installedClinic, { animalAccess });
    return { partner, clinic: installedClinic };
  }

  const send = (
    { partner, clinic }: Installation,
    method: "GET" | "POST" | "DELETE",
    path: string,
    body?: unknown,
    key: string = randomUUID(),
  ): Promise<PartnerResponse> =>
    partner.request(method, path, {
      headers: { "X-SERVICE-Clinic-ID": clinic.clinicId, "Idempotency-Key": key },
      body,
    });
  const redeem = (installation: Installation, code: string) => send(installation, "POST", "/animal-links", { code });
  const book = (installation: Installation, animalId: string, key?: string, scheduledAt = "2099-05-04T10:00:00.000Z") =>
    send(installation, "POST", "/appointments", { branchId: installation.clinic.branchId, animalId, scheduledAt }, key);
  const listAppointmentIds = async (installation: Installation): Promise<string[]> => {
    const { body } = await send(installation, "GET", "/appointments?from=2099-05-01T00:00:00Z");
    return body.appointments.map(({ id }: { id: string }) => id);
  };

  async function createCode(
    { partner, clinic }: Installation,
    options: { animalId?: string; covers?: ConsentCoverage } = {},
  ): Promise<string> {
    const { animalId = clinic.animalId, covers = "appointments_write" } = options;
    const owner = { applicationId: partner.applicationId, clinicId: clinic.clinicId };
    const context = createTestOperatorContext();
    const input = { ...owner, animalId, covers, validMinutes: 60 };
    return (await createLinkCode({ log: api.command.log, linkCodes }, input, context)).secrets.code;
  }
  const withdraw = ({ partner, clinic }: Installation) =>
    withdrawLink(
      api.command.log,
      { applicationId: partner.applicationId, ...clinic, requestedBy: "owner" },
      createTestOperatorContext(),
    );
  const eraseOwner = ({ clinicId, customerId }: Pick<TestClinic, "clinicId" | "customerId">) => {
    const erasure = { categories: ["contact" as const], cause: "request" as const, reason: "Request 17" };
    const command = { clinicId, id: customerId, ...erasure };
    return recordErasure.customer(api.command.log, command, createTestOperatorContext());
  };
  async function addAnimal({ clinicId, customerId }: TestClinic): Promise<string> {
    const animalId = randomUUID();
    const details = { name: "Duman", species: "dog", breed: null, sex: null, birthDate: null, microchip: null };
    const registration = { animalId, clinicId, customerId, ...details, weightKg: null };
    await registerAnimal(api.command.log, registration, createTestOperatorContext());
    return animalId;
  }
  const readConsentTypes = async (animalId: string) =>
    (await api.command.log.read(toStreamName(animalConsentStreams, animalId))).map(({ type }) => type);
  /** Removes the correlation id, which differs for each request. */
  const toRefusal = ({ status, body: { correlationId: _, ...body } }: PartnerResponse) => ({ status, body });
  const INVALID_CODE = {
    status: 422,
    body: { ok: false, error: "link_code_invalid", docUrl: "/docs#error-link_code_invalid" },
  };

  it("a redeemed code links the animal once, and the link can be read and ended", async () => {
    const installation = await install("linked");
    const { animalId } = installation.clinic;
    const code = await createCode(installation);
    const { status, body } = await redeem(installation, code.toLowerCase().replaceAll("-", " "));
    expect([status, body.link.animal, body.link.consent.covers]).to.eql([
      201,
      { id: animalId, name: "Pamuk", species: "cat" },
      "appointments_write",
    ]);
    const path = `/animal-links/${body.link.id}`;
    expect((await redeem(installation, code)).body).to.eql(body);
    expect((await send(installation, "GET", path)).body).to.eql(body);
    const { links, page } = (await send(installation, "GET", "/animal-links")).body;
    expect([links, page.nextCursor]).to.eql([[body.link], null]);
    expect((await send(installation, "DELETE", path)).body).to.eql({ ok: true, link: { id: body.link.id } });
    expect((await send(installation, "GET", path)).status).to.equal(404);
    expect((await send(installation, "GET", "/animal-links")).body.links).to.eql([]);
    expect((await send(installation, "DELETE", path)).status).to.equal(404);
    expect(toRefusal(await redeem(installation, code))).to.eql(INVALID_CODE);
    expect(await readConsentTypes(animalId)).to.eql(["AnimalLinkCodeCreated", "AnimalLinked", "AnimalLinkWithdrawn"]);
  });

  it("the log contains neither the code nor a hash of the code without the key", async () => {
    const installation = await install("linked");
    const code = await createCode(installation);
    const { log } = api.command;
    const [created] = await log.read(toStreamName(animalConsentStreams, installation.clinic.animalId));
    const { linkId } = created!.data as { linkId: string };
    const pointers = await log.read(`animalLinkCode-${linkId}`);
    expect(pointers.map(({ data }) => data)).to.eql([{ linkId, animalId: installation.clinic.animalId }]);
    expect(JSON.stringify([created!.data, pointers.map(({ data }) => data)])).not.to.include(code);
    const otherKeys = { current: "a", keys: { a: Buffer.alloc(32, 1).toString("base64") } };
    expect(createLinkCodes(otherKeys).listLinkIds(code)).to.not.include(linkId);
  });

  it("if two processes redeem one code at the same time, they return one link", async () => {
    const installation = await install("linked");
    const { clinicId, animalId } = installation.clinic;
    const client = connectEventStore(api.eventstoreUrl, "test");
    const logs = [api.command.log, createPlainLog(client)];
    for (let round = 1; round <= 10; round += 1) {
      const code = await createCode(installation);
      const input = { applicationId: installation.partner.applicationId, clinicId, code, sandbox: null };
      const context = { ...createTestOperatorContext(), clinicId };
      const results = await Promise.all(logs.map((log) => redeemLinkCode({ log, linkCodes }, input, context)));
      expect(new Set(results.map(({ link }) => link.linkId)).size).to.equal(1);
      const types = await readConsentTypes(animalId);
      expect(types.filter((type) => type === "AnimalLinked")).to.have.length(round);
    }
    await client.dispose();
  });

  it("with linked access, an animal without a link looks like an unknown animal in every operation", async () => {
    const installation = await install("linked");
    const inHouse = await install("all", installation.clinic);
    const hiddenAnimalId = await addAnimal(installation.clinic);
    await redeem(installation, await createCode(installation));
    const hidden = (await book(inHouse, hiddenAnimalId)).body.appointment.id;
    const own = (await book(installation, installation.clinic.animalId)).body.appointment.id;
    const refusals = [await book(installation, hiddenAnimalId), await book(installation, randomUUID())].map(toRefusal);
    expect(refusals[0]).to.eql(refusals[1]);
    expect(refusals[0]?.body.details).to.eql([{ path: "animalId", message: "is not an animal of the clinic" }]);
    // The partner's own position does not cover the writes of the other application.
    await send(inHouse, "GET", `/appointments/${hidden}`);
    expect(await listAppointmentIds(installation)).to.eql([own]);
    expect(await listAppointmentIds(inHouse)).to.have.members([own, hidden]);
    const responses = await Promise.all(
      [hidden, randomUUID()].map((id) => send(installation, "GET", `/appointments/${id}`)),
    );
    expect(responses.map(toRefusal)[0]).to.eql(responses.map(toRefusal)[1]);
    expect(responses[0]?.body.error).to.equal("appointment_not_found");
  });

  it("with linked access, the feed reports links, and events of animals only while they are linked", async () => {
    const installation = await install("linked");
    const inHouse = await install("all", installation.clinic);
    const hiddenAnimalId = await addAnimal(installation.clinic);
    // The withdrawal of a code that was not redeemed ends no link.
    await createCode(installation);
    await withdraw(installation);
    await redeem(installation, await createCode(installation));
    await book(inHouse, hiddenAnimalId);
    await book(installation, installation.clinic.animalId);
    const listTypes = async (reader: Installation) =>
      (await send(reader, "GET", "/events")).body.events.map(({ type }: { type: string }) => type);
    expect(await listTypes(installation)).to.eql([
      "installation.approved",
      "animal_link.created",
      "appointment.created",
    ]);
    expect(await listTypes(inHouse)).to.eql(["installation.approved", "appointment.created", "appointment.created"]);
    await withdraw(installation);
    const types = ["installation.approved", "animal_link.created", "animal_link.withdrawn"];
    await eventually("the feed", async () => (await listTypes(installation)).join() === types.join());
  });

  it("a new link makes cursors of the list of changes invalid, because it shows earlier changes", async () => {
    const installation = await install("linked");
    const inHouse = await install("all", installation.clinic);
    const otherAnimalId = await addAnimal(installation.clinic);
    const earlier = (await book(inHouse, otherAnimalId)).body.appointment.id;
    await redeem(installation, await createCode(installation));
    const { id } = (await book(installation, installation.clinic.animalId)).body.appointment;
    const listChanges = async (reader: Installation, updatedSince: string) => {
      const { status, body } = await send(reader, "GET", `/appointments?updatedSince=${updatedSince}`);
      return { status, ids: body.appointments?.map((appointment: { id: string }) => appointment.id), ...body.changes };
    };
    const { ids, cursor } = await listChanges(installation, "2026-01-01T00:00:00Z");
    const { cursor: inHouseCursor } = await listChanges(inHouse, "2026-01-01T00:00:00Z");
    expect(ids).to.eql([id]);
    expect(await listChanges(installation, cursor)).to.include({ status: 200 });
    await redeem(installation, await createCode(installation, { animalId: otherAnimalId }));
    expect(await listChanges(installation, cursor)).to.include({ status: 422 });
    expect((await listChanges(installation, "2026-01-01T00:00:00Z")).ids).to.eql([earlier, id]);
    const { cursor: laterCursor } = await listChanges(installation, "2026-01-01T00:00:00Z");
    // The older link ends, by a withdrawal or an erasure, and the newer one remains.
    await withdraw(installation);
    await eventually("the end", async () => (await listChanges(installation, laterCursor)).status === 422);
    expect((await listChanges(installation, "2026-01-01T00:00:00Z")).ids).to.eql([earlier]);
    expect(await listChanges(inHouse, inHouseCursor)).to.include({ status: 200 });
  });

  it("the erasure of the owner of an older link makes cursors of the list of changes invalid", async () => {
    const installation = await install("linked");
    const { log } = api.command;
    const customerId = randomUUID();
    const { clinicId } = installation.clinic;
    const contact = { fullName: "Cem Kaya", phone: null, email: null, city: null };
    await registerCustomer(log, { customerId, clinicId, ...contact }, createTestOperatorContext());
    await redeem(installation, await createCode(installation));
    const animalId = await addAnimal({ ...installation.clinic, customerId });
    await redeem(installation, await createCode(installation, { animalId }));
    await book(installation, animalId);
    const listSince = (since: string) => send(installation, "GET", `/appointments?updatedSince=${since}`);
    const { cursor } = (await listSince("2026-01-01T00:00:00Z")).body.changes;
    await eraseOwner(installation.clinic);
    await eventually("the end", async () => (await listSince(cursor)).body.error === "unknown_cursor");
  });

  it("after a withdrawal, reads find nothing, and new and repeated requests are refused like those for an unknown animal", async () => {
    const installation = await install("linked");
    const { animalId } = installation.clinic;
    await redeem(installation, await createCode(installation));
    const key = randomUUID();
    const { body } = await book(installation, animalId, key);
    expect((await book(installation, animalId, key)).body).to.eql(body);
    const { statePosition } = await withdraw(installation);
    const path = `/appointments/${body.appointment.id}`;
    const headers = {
      "X-SERVICE-Clinic-ID": installation.clinic.clinicId,
      "X-SERVICE-Log-Position": String(statePosition),
    };
    expect((await installation.partner.request("GET", path, { headers })).status).to.equal(404);
    expect(await listAppointmentIds(installation)).to.eql([]);
    await eventually("the refusal", async () => (await book(installation, animalId, key)).status === 422);
    const refusals = [
      await book(installation, animalId, key),
      await book(installation, animalId),
      await book(installation, randomUUID()),
    ].map(toRefusal);
    expect(refusals[0]).to.eql(refusals[2]);
    expect(refusals[1]).to.eql(refusals[2]);
    await redeem(installation, await createCode(installation));
    expect((await book(installation, animalId, key)).body).to.eql(body);
    expect(await listAppointmentIds(installation)).to.eql([body.appointment.id]);
  });

  it("the erasure of the owner ends the link at once, and the animal looks unknown instead of erased", async () => {
    const installation = await install("linked");
    const { animalId, clinicId, customerId } = installation.clinic;
    const code = await createCode(installation);
    const { link } = (await redeem(installation, code)).body;
    await book(installation, animalId);
    const { statePosition } = await eraseOwner({ clinicId, customerId });
    await eventually("the refusal", async () => (await book(installation, animalId)).status === 422);
    const refusals = [await book(installation, animalId), await book(installation, randomUUID())].map(toRefusal);
    expect(refusals[0]).to.eql(refusals[1]);
    expect(toRefusal(await redeem(installation, code))).to.eql(INVALID_CODE);
    const headers = { "X-SERVICE-Clinic-ID": clinicId, "X-SERVICE-Log-Position": String(statePosition) };
    const { status } = await installation.partner.request("GET", `/animal-links/${link.id}`, { headers });
    expect(status).to.equal(404);
    expect((await send(installation, "GET", "/animal-links")).body.links).to.eql([]);
    expect(await listAppointmentIds(installation)).to.eql([]);
    expect((await send(installation, "DELETE", `/animal-links/${link.id}`)).body.error).to.equal(
      "animal_link_not_found",
    );
    expect(await readConsentTypes(animalId)).to.eql(["AnimalLinkCodeCreated", "AnimalLinked"]);
  });

  it("a link of another application cannot be read or ended", async () => {
    const installation = await install("linked");
    const rival = await install("linked", installation.clinic);
    const { link } = (await redeem(installation, await createCode(installation))).body;
    for (const method of ["GET", "DELETE"] as const)
      expect((await send(rival, method, `/animal-links/${link.id}`)).body.error).to.equal("animal_link_not_found");
    expect((await send(rival, "GET", "/animal-links")).body.links).to.eql([]);
    expect((await send(installation, "GET", `/animal-links/${link.id}`)).body.link).to.eql(link);
  });

  it("the published code of a sandbox can be redeemed once after each reset", async () => {
    const partner = await api.createPartner();
    const { sandbox } = (await partner.request("GET", "/sandbox")).body;
    const installation = { partner, clinic: { clinicId: sandbox.clinicId } as TestClinic };
    const { status, body } = await redeem(installation, SANDBOX_LINK_CODES.valid);
    expect([status, body.link.animal.name]).to.eql([201, "Biscuit"]);
    expect((await redeem(installation, SANDBOX_LINK_CODES.valid)).body).to.eql(body);
    for (const code of [SANDBOX_LINK_CODES.expired, SANDBOX_LINK_CODES.used])
      expect(toRefusal(await redeem(installation, code))).to.eql(INVALID_CODE);
    expect((await send(installation, "DELETE", `/animal-links/${body.link.id}`)).status).to.equal(200);
    expect(toRefusal(await redeem(installation, SANDBOX_LINK_CODES.valid))).to.eql(INVALID_CODE);
    await partner.request("POST", "/sandbox/reset");
    expect((await send(installation, "GET", "/animal-links")).body.links).to.eql([]);
    const { link } = (await redeem(installation, SANDBOX_LINK_CODES.valid)).body;
    expect((await send(installation, "GET", "/animal-links")).body.links).to.eql([link]);
    await partner.request("POST", "/sandbox/reset");
    expect((await send(installation, "GET", `/animal-links/${link.id}`)).status).to.equal(404);
    expect((await send(installation, "DELETE", `/animal-links/${link.id}`)).status).to.equal(404);
  });

  describe("in a sandbox", () => {
    async function openSandbox() {
      const partner = await api.createPartner();
      const { sandbox } = (await partner.request("GET", "/sandbox")).body;
      const [branch] = sandbox.branches;
      const installation = { partner, clinic: { clinicId: sandbox.clinicId, branchId: branch.id } as TestClinic };
      const change = (body: unknown) => partner.request("POST", "/sandbox/access", { body });
      const linkAnimal = async (code: string) => (await redeem(installation, code)).body.link;
      const withdrawFor = (requestedBy: string, linkId: string) =>
        send(installation, "POST", `/animal-links/${linkId}/withdraw`, { requestedBy });
      const readEvents = async () => (await send(installation, "GET", "/events?limit=100")).body.events;
      return { partner, installation, change, linkAnimal, withdrawFor, readEvents, branchId: branch.id };
    }

    for (const requestedBy of ["owner", "clinic"]) {
      it(`a partner rehearses a withdrawal by the ${requestedBy}`, async () => {
        const { installation, linkAnimal, withdrawFor, readEvents } = await openSandbox();
        const link = await linkAnimal(SANDBOX_LINK_CODES.valid);
        expect((await withdrawFor(requestedBy, link.id)).body).to.eql({ ok: true, link: { id: link.id } });
        expect((await withdrawFor(requestedBy, link.id)).body.error).to.equal("animal_link_not_found");
        expect((await send(installation, "GET", "/animal-links")).body.links).to.eql([]);
        const { type, data } = (await readEvents()).at(-1);
        expect([type, data.link.id]).to.eql(["animal_link.withdrawn", link.id]);
      });
    }

    it("a partner rehearses access to linked animals only, and a consent that covers only reading", async () => {
      const { installation, change, linkAnimal, withdrawFor } = await openSandbox();
      const readOnly = await linkAnimal(SANDBOX_LINK_CODES.readOnly);
      expect(readOnly.consent.covers).to.equal("appointments_read");
      const { status } = await book(installation, readOnly.animal.id);
      const list = `/appointments?from=2099-05-01T00:00:00Z&animalId=${readOnly.animal.id}`;
      const countAppointments = async () => (await send(installation, "GET", list)).body.appointments.length;
      expect([status, await countAppointments()]).to.eql([201, 1]);
      expect((await change({ animalAccess: "linked", branchIds: null })).status).to.equal(200);
      expect((await book(installation, readOnly.animal.id)).body.error).to.equal("insufficient_consent");
      expect(await countAppointments()).to.equal(1);
      await withdrawFor("owner", readOnly.id);
      expect(await countAppointments()).to.equal(0);
      expect((await book(installation, readOnly.animal.id)).body.details[0].path).to.equal("animalId");
      expect((await change({ animalAccess: "all", branchIds: null })).status).to.equal(200);
      expect([await countAppointments(), (await book(installation, readOnly.animal.id)).status]).to.eql([1, 201]);
    });

    it("a partner rehearses access to one branch", async () => {
      const { partner, installation, change, branchId } = await openSandbox();
      const access = { animalAccess: "all", branchIds: [branchId] };
      const repeated = { ...access, branchIds: [branchId, branchId.toUpperCase()] };
      expect((await change(repeated)).body).to.eql({ ok: true, access });
      const { branches } = (await send(installation, "GET", "/clinic/context")).body;
      expect(branches.map(({ id }: { id: string }) => id)).to.eql([branchId]);
      for (const branchIds of [[], [randomUUID()], ["x"], "all"])
        expect((await change({ ...access, branchIds })).body.error).to.equal("validation_failed");
      const otherClinic = await install("all");
      expect((await otherClinic.partner.request("POST", "/sandbox/access", { body: access })).body.error).to.equal(
        "sandbox_only",
      );
      await partner.request("POST", "/sandbox/reset");
      expect((await send(installation, "GET", "/clinic/context")).body.branches).to.eql(branches);
    });

    it("a reset tells the end of each link", async () => {
      const { partner, linkAnimal, readEvents } = await openSandbox();
      const links = [await linkAnimal(SANDBOX_LINK_CODES.valid), await linkAnimal(SANDBOX_LINK_CODES.readOnly)];
      await partner.request("POST", "/sandbox/reset");
      const events = (await readEvents()).slice(-3);
      expect(events.map(({ type }: { type: string }) => type)).to.eql([
        ...["animal_link.withdrawn", "animal_link.withdrawn", "sandbox.reset"],
      ]);
      const endedIds = events.slice(0, 2).map((event: { data: { link: { id: string } } }) => event.data.link.id);
      expect(endedIds).to.have.members(links.map(({ id }) => id));
    });

    it("a reset ends a link that a redemption during the previous reset created", async () => {
      const { partner, installation } = await openSandbox();
      const { log } = api.command;
      const { clinicId } = installation.clinic;
      const earlierSandbox = (await loadSandbox(log, partner.applicationId)) ?? null;
      const reset = async () => (await partner.request("POST", "/sandbox/reset")).status;
      expect(await reset()).to.equal(200);
      const owner = { applicationId: partner.applicationId, clinicId };
      const input = { ...owner, code: SANDBOX_LINK_CODES.valid, sandbox: earlierSandbox };
      const context = { ...createTestOperatorContext(), clinicId, environment: "sandbox" as const };
      const { animal } = await redeemLinkCode({ log, linkCodes }, input, context);
      expect(await reset()).to.equal(200);
      expect(await readConsentTypes(animal.id)).to.eql(["AnimalLinked", "AnimalLinkWithdrawn"]);
    });

    it("links and appointments are filtered by animal", async () => {
      const { installation, linkAnimal } = await openSandbox();
      const [link, otherLink] = [
        await linkAnimal(SANDBOX_LINK_CODES.valid),
        await linkAnimal(SANDBOX_LINK_CODES.readOnly),
      ];
      const list = async (query: string) => (await send(installation, "GET", query)).body;
      expect((await list(`/animal-links?animalId=${link.animal.id}`)).links).to.eql([link]);
      expect((await list(`/animal-links?animalId=${randomUUID()}`)).links).to.eql([]);
      expect((await list("/animal-links?animalId=x")).details[0].path).to.equal("animalId");
      await book(installation, otherLink.animal.id);
      for (const range of ["from=2099-05-01T00:00:00Z", "updatedSince=2020-01-01T00:00:00Z"]) {
        const { appointments } = await list(`/appointments?${range}&animalId=${otherLink.animal.id}`);
        const animalIds = new Set(appointments.map(({ animalId }: { animalId: string }) => animalId));
        expect([...animalIds], range).to.eql([otherLink.animal.id]);
      }
    });
  });
});
