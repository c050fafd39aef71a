import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { sendRequest, startTestCommandService, type TestCommand } from "../../support/partner.ts";
import { type Partner, startPartnerApi } from "../../support/partner-api.ts";
import { useResource } from "../../support/resources.ts";

const DAY_MS = 86_400_000;

describe("idempotency keys over two processes", function () {
  this.timeout(120_000);
  const api = useResource(startPartnerApi);
  let commands: TestCommand[];
  let partner: Partner;
  // biome-ignore lint/suspicious/noExplicitAny: the API's responses have no type in tests
  let sandbox: any;

  before(async () => {
    const otherCommand = await startTestCommandService({
      EVENTSTORE_URL: api.eventstoreUrl,
      DATABASE_URL: api.database.urls.command,
      WEBHOOK_SECRET_KEYS: JSON.stringify({ current: "k1", keys: { k1: Buffer.alloc(32).toString("base64") } }),
      TOKEN_SIGNING_KEYS: JSON.stringify({ keys: [api.command.signingKey] }),
    });
    commands = [api.command, otherCommand];
  });
  beforeEach(async () => {
    partner = await api.createPartner();
    sandbox = (await partner.request("GET", "/sandbox")).body.sandbox;
  });

  const create = (index: number, key: string, notes = "Limps") => {
    const headers = { ...partner.headers, "X-SERVICE-Clinic-ID": sandbox.clinicId, "Idempotency-Key": key };
    const scheduledAt = new Date(Math.ceil(Date.now() / DAY_MS) * DAY_MS + 3 * DAY_MS).toISOString();
    const body = { branchId: sandbox.branches[0].id, animalId: sandbox.animals[0].id, scheduledAt, notes };
    return sendRequest("POST", `${commands[index % 2]!.url}/sandbox/v1/appointments`, headers, body);
  };
  const reset = (index: number) =>
    sendRequest("POST", `${commands[index]!.url}/sandbox/v1/sandbox/reset`, partner.headers);

  it("during resets of the sandbox, each key has one appointment in each generation", async () => {
    const keys = Array.from({ length: 4 }, () => randomUUID());
    const createAll = () => Promise.all(keys.flatMap((key) => [0, 1].map((n) => create(n, key))));
    let hasEnded = false;
    const resets = (async () => {
      for (let count = 0; count < 3; count += 1)
        for (const { status } of await Promise.all([reset(0), reset(1)])) expect(status).to.be.oneOf([200, 409]);
      hasEnded = true;
    })();
    const outcomes = new Set<string>();
    while (!hasEnded)
      for (const { status, body } of await createAll()) outcomes.add(`${status} ${body.error ?? ""}`.trim());
    await resets;
    const lastResponses = await createAll();
    expect(lastResponses.map(({ status }) => status)).to.deep.equal(Array.from({ length: 8 }, () => 201));
    const lastIds = new Set(lastResponses.map(({ body }) => body.appointment.id));
    expect(lastIds.size).to.equal(4);
    const { body } = await partner.request("GET", "/appointments?limit=100", {
      headers: { "X-SERVICE-Clinic-ID": sandbox.clinicId },
    });
    const listedIds = body.appointments
      .filter(({ notes }: { notes: string }) => notes === "Limps")
      .map(({ id }: { id: string }) => id);
    expect(listedIds).to.have.members([...lastIds]);
    expect([...outcomes]).to.deep.equal(["201"]);
  });
});
