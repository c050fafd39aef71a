import { expect } from "chai";
import { approveWebhookOrigin, withdrawWebhookOrigin } from "../../../command/operations/application-operations.ts";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import {
  createPartnerWorld,
  createTestOperatorContext,
  type PartnerWorld,
  sendRequest,
  startTestCommandService,
  type TestCommand,
} from "../../support/partner.ts";

const ORIGIN = "http://127.0.0.1:9";
const SECRET_KEYS = { current: "k1", keys: { k1: Buffer.alloc(32, 7).toString("base64") } };
const ENDPOINT_FIELDS = ["id", "clinicId", "url", "events", "status", "disabledReason", "createdAt", "updatedAt"];

describe("createWebhookEndpoint", () => {
  let command: TestCommand;
  let world: PartnerWorld;

  before(async () => {
    command = await startTestCommandService({ WEBHOOK_SECRET_KEYS: JSON.stringify(SECRET_KEYS) });
    world = await createPartnerWorld(command);
    await approveWebhookOrigin(command.log, { ...world, origin: `${ORIGIN}/any/path` }, createTestOperatorContext());
  });
  after(() => command.stop());

  const validInput = { url: `${ORIGIN}/hooks`, events: ["appointment.created"] };
  const sendEndpointRequest = (method: "POST" | "DELETE", path = "", body?: unknown, caller: PartnerWorld = world) =>
    sendRequest(method, `${command.url}/${caller.environment}/v1/webhook-endpoints${path}`, caller.headers, body);
  const readEvents = (id: string) => command.log.read<CatalogEvent & never>(`webhookEndpoint-${id}`);

  it("createWebhookEndpoint returns 201 with the endpoint and the secret, and stores the secret encrypted", async () => {
    const { status, body, headers } = await sendEndpointRequest("POST", "", {
      url: validInput.url,
      events: ["appointment.updated", "appointment.created", "appointment.updated"],
    });
    expect(status).to.equal(201);
    expect(headers.get("cache-control")).to.equal("no-store");
    expect(body).to.have.all.keys("ok", "endpoint", "secret");
    expect(body.endpoint).to.have.all.keys(ENDPOINT_FIELDS);
    expect(body.endpoint).to.deep.include({
      clinicId: world.clinicId,
      url: validInput.url,
      events: ["appointment.updated", "appointment.created"],
      status: "active",
      disabledReason: null,
    });
    expect(body.secret).to.match(/^whsec_[A-Za-z0-9+/]{43}=$/);
    const [event] = await readEvents(body.endpoint.id);
    const storedText = JSON.stringify(event, (_, value) => (typeof value === "bigint" ? String(value) : value));
    expect(storedText).to.include('"encryptedSecret":"eyJ').and.not.include(body.secret.slice(6));
  });

  it("in the sandbox, createWebhookEndpoint accepts an origin that is not approved", async () => {
    const sandboxWorld = await createPartnerWorld(command, "sandbox");
    expect((await sendEndpointRequest("POST", "", validInput, sandboxWorld)).status).to.equal(201);
  });

  const invalidInputs: [string, unknown, string][] = [
    ["a missing URL", { events: validInput.events }, "invalid_destination"],
    ["a URL that is a number", { ...validInput, url: 7 }, "invalid_destination"],
    ["a text that is not a URL", { ...validInput, url: "hooks" }, "invalid_destination"],
    ["a URL of another origin", { ...validInput, url: "https://hooks.example.com/" }, "destination_not_approved"],
    ["missing events", { url: validInput.url }, "validation_failed"],
    ["an empty list of events", { ...validInput, events: [] }, "validation_failed"],
    ["an unknown event", { ...validInput, events: ["appointment.deleted"] }, "validation_failed"],
    ["an unknown field", { ...validInput, secret: "mine" }, "validation_failed"],
    ["an array as body", [], "validation_failed"],
    ["null as body", null, "validation_failed"],
  ];
  for (const [caseName, body, code] of invalidInputs) {
    it(`createWebhookEndpoint returns 400 ${code} for ${caseName}`, async () => {
      const response = await sendEndpointRequest("POST", "", body);
      expect(response.status).to.equal(400);
      expect(response.body.error).to.equal(code);
      expect(response.body.details).to.not.equal(undefined);
    });
  }

  for (const url of [
    "ftp://127.0.0.1/hooks",
    "https://user:pass@hooks.example.com/",
    "https://10.0.0.1/hooks",
    "https://169.254.169.254/latest/meta-data",
    "https://[::ffff:10.0.0.1]/hooks",
    "https://8.8.8.8:444/hooks",
    "http://8.8.8.8/hooks",
  ]) {
    it(`createWebhookEndpoint returns 400 unsafe_destination for ${url}`, async () => {
      const sandboxWorld = await createPartnerWorld(command, "sandbox");
      const response = await sendEndpointRequest("POST", "", { ...validInput, url }, sandboxWorld);
      expect(response.status).to.equal(400);
      expect(response.body.error).to.equal("unsafe_destination");
    });
  }

  it("createWebhookEndpoint returns 400 destination_not_approved after the approval of the origin was withdrawn", async () => {
    const otherWorld = await createPartnerWorld(command);
    const input = { ...otherWorld, origin: ORIGIN };
    await approveWebhookOrigin(command.log, input, createTestOperatorContext());
    expect((await sendEndpointRequest("POST", "", validInput, otherWorld)).status).to.equal(201);
    await withdrawWebhookOrigin(command.log, input, createTestOperatorContext());
    expect((await sendEndpointRequest("POST", "", validInput, otherWorld)).body.error).to.equal(
      "destination_not_approved",
    );
  });

  it("createWebhookEndpoint returns 409 webhook_endpoint_limit_reached if there are 50 endpoints that are not revoked", async () => {
    const fullWorld = await createPartnerWorld(command, "sandbox");
    const registerEndpoint = () => sendEndpointRequest("POST", "", validInput, fullWorld);
    const responses: Awaited<ReturnType<typeof registerEndpoint>>[] = [];
    for (let round = 0; round < 8; round += 1) {
      responses.push(...(await Promise.all(Array.from({ length: 7 }, registerEndpoint))));
    }
    const statuses = responses.map(({ status }) => status);
    expect(statuses.filter((status) => status === 201)).to.have.length(50);
    const refusedResponses = responses.filter(({ status }) => status !== 201);
    for (const { status, body } of refusedResponses) {
      expect([status, body.error]).to.deep.equal([409, "webhook_endpoint_limit_reached"]);
    }
    const { id } = responses.find(({ status }) => status === 201)!.body.endpoint;
    expect((await sendEndpointRequest("DELETE", `/${id}`, undefined, fullWorld)).status).to.equal(200);
    expect((await registerEndpoint()).status).to.equal(201);
    expect((await registerEndpoint()).status).to.equal(409);
    expect((await sendEndpointRequest("POST", "", validInput)).status).to.equal(201);
  });
});
