import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { MAX_ENDPOINTS, reserveEndpointPlace } from "../../../command/operations/webhook-endpoint-operations.ts";
import { EventSchemaError } from "../../../shared/domain/events/stored-event.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import {
  createPartnerWorld,
  createTestOperatorContext,
  type PartnerResponse,
  type PartnerWorld,
  sendRequest,
  startTestCommandService,
  type TestCommand,
} from "../../support/partner.ts";
import { getTestServers } from "../../support/stack.ts";

const NOON_MS = Date.parse("2026-05-04T12:00:00.000Z");
const VALID_ENDPOINT = { url: "http://127.0.0.1:9/hooks", events: ["appointment.created"] };

describe("concurrent changes of one object", function () {
  this.timeout(60_000);
  /** Two services on one event log, like two processes. */
  let commands: TestCommand[];
  let world: PartnerWorld;

  before(async () => {
    const firstCommand = await startTestCommandService();
    const TOKEN_SIGNING_KEYS = JSON.stringify({ keys: [firstCommand.signingKey] });
    commands = [firstCommand, await startTestCommandService({ TOKEN_SIGNING_KEYS })];
  });
  beforeEach(async () => {
    world = await createPartnerWorld(commands[0]!, "sandbox");
  });

  const post = (command: TestCommand, path = "", body?: unknown, caller = world) =>
    sendRequest("POST", `${command.url}/sandbox/v1/webhook-endpoints${path}`, caller.headers, body);
  const postAll = (count: number, targets: TestCommand[], path?: string, body?: unknown) =>
    Promise.all(Array.from({ length: count }, (_, n) => post(targets[n % targets.length]!, path, body)));
  const countOutcomes = (responses: PartnerResponse[]) => {
    const counts: Record<string, number> = {};
    for (const { status, body } of responses) {
      const name = `${status} ${body.error ?? ""}`.trim();
      counts[name] = (counts[name] ?? 0) + 1;
    }
    return counts;
  };
  const registerEndpoint = async () => (await post(commands[0]!, "", VALID_ENDPOINT)).body.endpoint.id as string;

  for (const processCount of [1, 2]) {
    it(`of 70 concurrent endpoint registrations over ${processCount} process(es), 50 succeed until an endpoint is revoked`, async () => {
      const responses = await postAll(70, commands.slice(0, processCount), "", VALID_ENDPOINT);
      const counts = { "201": MAX_ENDPOINTS, "409 webhook_endpoint_limit_reached": 20 };
      expect(countOutcomes(responses)).to.deep.equal(counts);
      const { id } = responses.find(({ status }) => status === 201)!.body.endpoint;
      const url = `${commands[0]!.url}/sandbox/v1/webhook-endpoints/${id}`;
      expect((await sendRequest("DELETE", url, world.headers)).status).to.equal(200);
      expect((await post(commands[0]!, "", VALID_ENDPOINT)).status).to.equal(201);
      expect((await post(commands[0]!, "", VALID_ENDPOINT)).status).to.equal(409);
    });

    it(`70 concurrent tests of an endpoint over ${processCount} process(es) create 70 deliveries`, async () => {
      const responses = await postAll(70, commands.slice(0, processCount), `/${await registerEndpoint()}/test`);
      expect(countOutcomes(responses)).to.deep.equal({ "202": 70 });
      expect(new Set(responses.map(({ body }) => body.delivery.id)).size).to.equal(70);
    });
  }

  it("an endpoint registration succeeds during 70 registrations of another application", async () => {
    const otherWorld = await createPartnerWorld(commands[0]!, "sandbox");
    const floodPromise = postAll(70, commands, "", VALID_ENDPOINT);
    const { status } = await post(commands[0]!, "", VALID_ENDPOINT, otherWorld);
    expect(status).to.equal(201);
    const counts = countOutcomes(await floodPromise);
    expect(counts).to.deep.equal({ "201": MAX_ENDPOINTS, "409 webhook_endpoint_limit_reached": 20 });
  });

  it("an interrupted endpoint registration counts towards the maximum number of endpoints for only one minute", async () => {
    const { log } = commands[0]!;
    const { applicationId, clinicId, environment } = world;
    const owner = { applicationId, clinicId, environment };
    const reservePlace = (now: number) =>
      reserveEndpointPlace(log, { owner, endpointId: randomUUID() }, createTestOperatorContext(now)).then(
        () => "reserved",
        (error: { code?: string }) => error.code,
      );
    // Each registration stops halfway: it reserves a place in the endpoint quota, but never registers the endpoint.
    for (let n = 0; n < MAX_ENDPOINTS; n += 1) expect(await reservePlace(NOON_MS)).to.equal("reserved");
    expect(await reservePlace(NOON_MS + 59_000)).to.equal("webhook_endpoint_limit_reached");
    expect(await reservePlace(NOON_MS + 60_000)).to.equal("reserved");
  });

  it("an endpoint with an unreadable event keeps its place in the quota, and the other places are released", async () => {
    const { applicationId, clinicId, environment } = world;
    const owner = { applicationId, clinicId, environment };
    const unreadableId = randomUUID();
    const { log } = commands[0]!;
    const readLast = ((stream: string) =>
      stream.endsWith(unreadableId)
        ? Promise.reject(new EventSchemaError("the event is unreadable"))
        : log.readLast(stream)) as typeof log.readLast;
    const reservePlace = (now: number, endpointId = randomUUID()) =>
      reserveEndpointPlace({ ...log, readLast }, { owner, endpointId }, createTestOperatorContext(now)).then(
        () => "reserved",
        (error: { code?: string }) => error.code,
      );
    await reservePlace(NOON_MS, unreadableId);
    for (const now of [NOON_MS, NOON_MS + 60_000]) {
      for (let n = 0; n < MAX_ENDPOINTS - 1; n += 1) expect(await reservePlace(now)).to.equal("reserved");
      expect(await reservePlace(now)).to.equal("webhook_endpoint_limit_reached");
    }
  });

  it("an endpoint whose stream was deleted releases its place in the quota after a minute", async () => {
    const [response] = await postAll(MAX_ENDPOINTS, commands, "", VALID_ENDPOINT);
    const client = connectEventStore((await getTestServers()).eventstoreUrl, "test");
    await client.tombstoneStream(`webhookEndpoint-${response?.body.endpoint.id}`);
    await client.dispose();
    const { applicationId, clinicId, environment } = world;
    const input = { owner: { applicationId, clinicId, environment }, endpointId: randomUUID() };
    await reserveEndpointPlace(commands[0]!.log, input, createTestOperatorContext(Date.now() + 60_000));
  });
});
