import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { confirmAppointment } from "../../../command/operations/appointment-operations.ts";
import { narrowInstallation } from "../../../command/operations/installation-operations.ts";
import { derivePartnerAppointmentId } from "../../../shared/domain/events/ids.ts";
import { publicAppointment } from "../../../shared/partner-api/records.ts";
import {
  createPartnerWorld,
  createTestOperatorContext,
  type PartnerWorld,
  sendRequest,
  startTestCommandService,
} from "../../support/partner.ts";
import { useResource } from "../../support/resources.ts";
import { postAppointment } from "./command-app.ts";

const SCHEDULED_AT = "2099-05-04T10:00:00+03:00";

describe("createPartnerAppointment", () => {
  const command = useResource(startTestCommandService);
  let world: PartnerWorld;
  let otherWorld: PartnerWorld;

  before(async () => {
    [world, otherWorld] = await Promise.all([createPartnerWorld(command), createPartnerWorld(command)]);
  });

  const createBody = (overrides: Record<string, unknown> = {}) => ({
    branchId: world.branchId,
    animalId: world.animalId,
    scheduledAt: SCHEDULED_AT,
    ...overrides,
  });
  const createAppointment = (content: unknown = createBody(), headers = {}, key: string = randomUUID()) => {
    const allHeaders = { ...world.headers, "Idempotency-Key": key, ...headers };
    return sendRequest("POST", `${command.url}/production/v1/appointments`, allHeaders, content);
  };
  const deriveId = (idempotencyKey: string) =>
    derivePartnerAppointmentId({ ...world, sandboxGeneration: 0, idempotencyKey });

  it("createPartnerAppointment returns 201 with the appointment and records one event", async () => {
    const key = randomUUID();
    const { status, body: responseBody, headers } = await createAppointment(createBody({ notes: "Limps 🐾" }), {}, key);
    expect(status).to.equal(201);
    expect(responseBody).to.have.all.keys("ok", "appointment");
    expect(responseBody.appointment).to.deep.include({
      id: deriveId(key),
      clinicId: world.clinicId,
      branchId: world.branchId,
      animalId: world.animalId,
      scheduledAt: "2099-05-04T07:00:00.000Z",
      durationMinutes: 30,
      status: "requested",
      notes: "Limps 🐾",
      revision: 0,
    });
    publicAppointment.schema.parse(responseBody.appointment);
    expect(headers.get("location")).to.match(new RegExp(`^/\\w+/v1/appointments/${deriveId(key)}$`));
    expect(headers.get("idempotent-replayed")).to.equal(null);
    expect(headers.get("cache-control")).to.equal("no-store");
    const events = await command.log.read(`appointment-${deriveId(key)}`);
    expect(events).to.have.length(1);
    expect(events[0]!.data).to.deep.include({
      customerId: world.customerId,
      applicationId: world.applicationId,
    });
    expect(events[0]!.metadata).to.deep.include({
      $correlationId: headers.get("x-correlation-id"),
      actor: { type: "application", id: world.applicationId },
      clinicId: world.clinicId,
      environment: "production",
    });
  });

  it("a retry with the same values in another notation gets the first response, even if the appointment has changed", async () => {
    const key = randomUUID();
    const firstResponse = await createAppointment(createBody({ notes: "Limps" }), {}, key);
    const appointment = { clinicId: world.clinicId, appointmentId: deriveId(key) };
    await confirmAppointment(command.log, appointment, createTestOperatorContext());
    const animalId = world.animalId.toUpperCase();
    const rewrittenBody = {
      notes: "Limps",
      scheduledAt: "2099-05-04t07:00:00.000z",
      animalId,
      branchId: world.branchId,
    };
    const retryResponse = await createAppointment(rewrittenBody, {}, key);
    expect(retryResponse.status).to.equal(201);
    expect(retryResponse.headers.get("idempotent-replayed")).to.equal("true");
    expect(retryResponse.text).to.equal(firstResponse.text);
  });

  it("equal idempotency keys of different applications and clinics are independent", async () => {
    const key = randomUUID();
    const ownResponse = await createAppointment(createBody(), {}, key);
    const otherResponse = await postAppointment(command.url, otherWorld, key);
    expect([ownResponse.status, otherResponse.status]).to.deep.equal([201, 201]);
    expect(otherResponse.headers.get("idempotent-replayed")).to.equal(null);
    expect(otherResponse.body.appointment.id).not.to.equal(ownResponse.body.appointment.id);
  });

  const printableCharacters = Array.from({ length: 95 }, (_, index) => String.fromCharCode(32 + index));
  for (const [caseName, key] of [
    ["8 characters", "12345678"],
    ["128 characters", "k".repeat(128)],
    ["every printable character", printableCharacters.join("").trim()],
    ["a quoted string with spaces, as in the IETF draft", '"8e03978e 40d5 43dd"'],
  ] as const) {
    it(`createPartnerAppointment accepts an idempotency key of ${caseName}`, async () => {
      expect((await createAppointment(createBody(), {}, key)).status).to.equal(201);
    });
  }

  it("createPartnerAppointment accepts notes of 2000 code points", async () => {
    const { status, body: responseBody } = await createAppointment(createBody({ notes: "🐾".repeat(2000) }));
    expect(status).to.equal(201);
    expect([...responseBody.appointment.notes]).to.have.length(2000);
    expect(await command.log.read(`appointment-${responseBody.appointment.id}`)).to.have.length(1);
  });

  it("createPartnerAppointment accepts a branch header that equals the branch in the body", async () => {
    const branchHeader = { "X-SERVICE-Branch-ID": world.branchId.toUpperCase() };
    expect((await createAppointment(createBody(), branchHeader)).status).to.equal(201);
  });

  const invalidBodies: [string, () => unknown, string[]][] = [
    ["a missing branch", () => createBody({ branchId: undefined }), ["branchId"]],
    ["a branch that is not a UUID", () => createBody({ branchId: "main" }), ["branchId"]],
    ["an unknown branch", () => createBody({ branchId: randomUUID() }), ["branchId"]],
    ["another clinic's branch", () => createBody({ branchId: otherWorld.branchId }), ["branchId"]],
    ["an unknown animal", () => createBody({ animalId: randomUUID() }), ["animalId"]],
    ["another clinic's animal", () => createBody({ animalId: otherWorld.animalId }), ["animalId"]],
    ["a null animal", () => createBody({ animalId: null }), ["animalId"]],
    ["the date 30 February", () => createBody({ scheduledAt: "2099-02-30T10:00:00Z" }), ["scheduledAt"]],
    ["a time without offset", () => createBody({ scheduledAt: "2099-05-04T10:00:00" }), ["scheduledAt"]],
    ["a date without a time", () => createBody({ scheduledAt: "2099-05-04" }), ["scheduledAt"]],
    ["a number as time", () => createBody({ scheduledAt: 4_081_000_000_000 }), ["scheduledAt"]],
    ["a past time", () => createBody({ scheduledAt: "2020-05-04T10:00:00Z" }), ["scheduledAt"]],
    ["notes of 2001 characters", () => createBody({ notes: "x".repeat(2001) }), ["notes"]],
    ["notes with NUL", () => createBody({ notes: "a\0b" }), ["notes"]],
    ["notes that are null", () => createBody({ notes: null }), ["notes"]],
    ["an unknown field", () => createBody({ vip: true }), ["vip"]],
    ["several invalid fields", () => createBody({ branchId: 7, notes: 7, vip: 1 }), ["branchId", "notes", "vip"]],
    [
      "another clinic's branch and animal",
      () => createBody({ branchId: otherWorld.branchId, animalId: otherWorld.animalId }),
      ["branchId", "animalId"],
    ],
    [
      "an unknown branch and an unknown animal",
      () => createBody({ branchId: randomUUID(), animalId: randomUUID() }),
      ["branchId", "animalId"],
    ],
    ["null as body", () => null, ["body"]],
  ];
  for (const [caseName, content, paths] of invalidBodies) {
    it(`createPartnerAppointment returns 422 validation_failed for ${caseName}`, async () => {
      const { status, body: responseBody } = await createAppointment(content());
      expect(status).to.equal(422);
      expect(responseBody).to.have.all.keys("ok", "error", "correlationId", "docUrl", "details");
      expect(responseBody.error).to.equal("validation_failed");
      expect(responseBody.details.map(({ path }: { path: string }) => path)).to.have.members(paths);
    });
  }

  for (const [caseName, key] of [
    ["no value", undefined],
    ["7 characters", "1234567"],
    ["129 characters", "k".repeat(129)],
    ["a tab", "1234\t5678"],
    ["a character beyond ASCII", "1234567é"],
    ["7 characters between spaces", " 1234567 "],
  ] as const) {
    it(`createPartnerAppointment returns 422 for an Idempotency-Key header with ${caseName}`, async () => {
      const headers = key === undefined ? world.headers : { ...world.headers, "Idempotency-Key": key };
      const url = `${command.url}/production/v1/appointments`;
      const { status, body: responseBody } = await sendRequest("POST", url, headers, createBody());
      expect(status).to.equal(422);
      expect(responseBody.details[0].path).to.equal("header Idempotency-Key");
    });
  }

  it("createPartnerAppointment returns 422 for a branch header that contradicts the body", async () => {
    const send = (branchId: string) => createAppointment(createBody(), { "X-SERVICE-Branch-ID": branchId });
    const { status, body: responseBody } = await send(world.otherBranchId);
    expect([status, responseBody.details[0].path]).to.deep.equal([422, "branchId"]);
    expect((await send(otherWorld.branchId)).body.error).to.equal("branch_denied");
  });

  it("an idempotency key can be reused after a 422 response", async () => {
    const key = randomUUID();
    expect((await createAppointment(createBody({ animalId: randomUUID() }), {}, key)).status).to.equal(422);
    expect((await createAppointment(createBody(), {}, key)).status).to.equal(201);
  });

  it("createPartnerAppointment refuses a branch that was removed from the installation", async () => {
    const narrowedWorld = await createPartnerWorld(command);
    const { applicationId, clinicId, branchId, otherBranchId, animalId } = narrowedWorld;
    const change = { applicationId, clinicId, branchIds: [otherBranchId] };
    await narrowInstallation(command.log, change, createTestOperatorContext());
    const createBodyAt = (branchId: string) => ({ branchId, animalId, scheduledAt: SCHEDULED_AT });
    expect((await createAppointment(createBodyAt(branchId), narrowedWorld.headers)).status).to.equal(422);
    expect((await createAppointment(createBodyAt(otherBranchId), narrowedWorld.headers)).status).to.equal(201);
    const narrowedHeaders = { ...narrowedWorld.headers, "X-SERVICE-Branch-ID": branchId };
    expect((await createAppointment(createBodyAt(branchId), narrowedHeaders)).body.error).to.equal("branch_denied");
  });
});
