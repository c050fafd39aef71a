import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { changeSubscription } from "../command/operations/clinic-operations.ts";
import { registerCustomer } from "../command/operations/customer-operations.ts";
import { grantMembership } from "../command/operations/people-operations.ts";
import { startProjection } from "../projection/start.ts";
import { startQueryApi } from "../query-api/start.ts";
import type { RunningService } from "../shared/runtime/run-service.ts";
import { type CapturedLogs, captureLogs } from "./support/captured-logs.ts";
import { PERSONAL_DATA_KEYS } from "./support/data-keys.ts";
import { eventually } from "./support/eventually.ts";
import { createDatabaseWithReadModels } from "./support/migrated-database.ts";
import { type OwnLog, startOwnLog } from "./support/own-log.ts";
import {
  createPartnerWorld,
  createTestOperatorContext,
  type PartnerWorld,
  sendRequest,
  sendTokenRequest,
  startTestCommandService,
  type TestCommand,
  TOKEN_ISSUER,
} from "./support/partner.ts";
import { type IdentityProvider, startIdentityProvider } from "./support/portal.ts";
import { type Receiver, startReceiver } from "./support/receiver.ts";
import { autoStop } from "./support/resources.ts";
import { getTestServers, type TestDatabase } from "./support/stack.ts";

const PERSON = { fullName: "Melpomene Quistgaard", phone: "+47 555 0199", email: "melpomene@example.com" };
const NOTES = "limps on the left since Tuesday";
const RESPONSE_BODY = "the body of the receiver's response";

describe("the logs of all services at level debug", () => {
  let logs: CapturedLogs;
  let ownLog: OwnLog;
  let database: TestDatabase;
  let provider: IdentityProvider;
  let receiver: Receiver;
  let command: TestCommand;
  let projection: RunningService;
  let queryApi: RunningService;

  before(async () => {
    const { natsUrl } = await getTestServers();
    ownLog = await startOwnLog();
    database = await createDatabaseWithReadModels();
    provider = await startIdentityProvider();
    receiver = await startReceiver();
    logs = captureLogs();
    const commonEnv = { PORT: "0", LOG_LEVEL: "debug", EVENTSTORE_URL: ownLog.eventstoreUrl, NATS_URL: natsUrl };
    const webhookEnv = {
      PERSONAL_DATA_KEYS,
      WEBHOOK_SECRET_KEYS: JSON.stringify({ current: "k1", keys: { k1: Buffer.alloc(32, 5).toString("base64") } }),
      WEBHOOK_ALLOW_LOOPBACK: "true",
      WEBHOOK_RETRY_SCHEDULE: "0.05,0.05",
    };
    projection = await autoStop(
      startProjection({ ...commonEnv, ...webhookEnv, DATABASE_URL: database.urls.projection }),
    );
    command = await startTestCommandService({ ...commonEnv, ...webhookEnv, DATABASE_URL: database.urls.command });
    queryApi = await autoStop(
      startQueryApi({
        ...commonEnv,
        DATABASE_URL: database.urls.query,
        OPERATOR_NAME: "Test Operator",
        PORTAL_COOKIE_NAME: provider.cookieName,
        PORTAL_JWT_ISSUER: provider.issuer,
        PORTAL_JWT_SECRET: provider.secret,
        TOKEN_ISSUER,
        TOKEN_JWKS_URL: `${command.url}/.well-known/jwks.json`,
      }),
    );
  });

  it("the logs of all services contain no secrets, tokens, or data about people or animals", async () => {
    const world = await createPartnerWorld(command, "sandbox");
    const cookie = await createPortalUser(world);
    const body = { url: `${receiver.url}/hooks?key=in-the-url`, events: ["appointment.created"] };
    const endpointResponse = await sendRequest(
      "POST",
      `${command.url}/sandbox/v1/webhook-endpoints`,
      world.headers,
      body,
    );
    expect(endpointResponse.status).to.equal(201);
    receiver.queueReactions({ status: 500, body: RESPONSE_BODY }, { mode: "close" });
    const key = `key-${randomUUID()}`;
    await createAppointment(world, key);
    await eventually("a successful delivery", () => receiver.requests.some(({ status }) => status === 200));
    await readInPortal(cookie);
    await sendInvalidRequests(world, cookie);
    await Promise.all([queryApi.stop(), command.stop()]);
    await projection.stop();

    const text = logs.text();
    for (const service of ["command", "query-api", "projection"]) expect(text).to.contain(`"service":"${service}"`);
    expect(text).to.contain('"route":"/sandbox/v1/appointments"').and.contain('"route":"/api/v1/customers"');
    const secrets = {
      clientSecret: world.clientSecret,
      token: world.token,
      signature: world.token.split(".")[2],
      cookie,
      session: cookie.split("=")[1],
      webhookSecret: endpointResponse.body.secret,
      key,
      NOTES,
      RESPONSE_BODY,
      ...PERSON,
      encryptionKey: Buffer.alloc(32, 5).toString("base64"),
      portal: provider.secret,
      signingKey: command.signingKey.d,
      url: "in-the-url",
      wrong: "cs_wrong",
      pet: "Pamuk",
      owner: "Ada Yilmaz",
      password: new URL(database.urls.query).password,
      animal: world.animalId,
    };
    for (const [label, secret] of Object.entries(secrets)) {
      expect(secret, label).to.be.a("string").and.not.equal("");
      expect(text, label).not.to.contain(secret);
    }
  });

  /** Registers a customer, and a portal user who owns the clinic. @returns the owner's Cookie header */
  async function createPortalUser({ clinicId }: PartnerWorld): Promise<string> {
    const { log } = command;
    const context = createTestOperatorContext();
    const [customerId, membershipId, userId] = [randomUUID(), randomUUID(), randomUUID()];
    const subscription = { clinicId, plan: "pro", status: "active" as const, currentPeriodEnd: null };
    await changeSubscription(log, subscription, context);
    await registerCustomer(log, { customerId, clinicId, ...PERSON, city: null }, context);
    const permissions = ["view_clinical" as const, "manage_schedule" as const];
    const rights = { role: "owner" as const, permissions, branchAccess: "all" as const, branchIds: [] };
    const acceptedAt = "2026-03-01T08:00:00.000Z";
    await grantMembership(log, { membershipId, clinicId, userId, staffId: null, acceptedAt, ...rights }, context);
    return provider.createSessionCookie(userId);
  }

  async function createAppointment(world: PartnerWorld, key: string): Promise<void> {
    const { branchId, animalId } = world;
    const body = { branchId, animalId, scheduledAt: "2099-05-04T10:00:00Z", notes: NOTES };
    const headers = { ...world.headers, "Idempotency-Key": key };
    const url = `${command.url}/sandbox/v1/appointments`;
    expect((await sendRequest("POST", url, headers, body)).status).to.equal(201);
    expect((await sendRequest("POST", url, headers, { ...body, notes: `${NOTES}!` })).status).to.equal(409);
  }

  async function readInPortal(Cookie: string): Promise<void> {
    for (const [path, expectedText] of [
      ["customers", PERSON.phone],
      ["appointments?from=2099-05-04T00:00:00Z", NOTES],
    ])
      await eventually(path!, async () => {
        const response = await fetch(`${queryApi.url}/api/v1/${path}`, { headers: { Cookie } });
        return (await response.text()).includes(expectedText!);
      });
  }

  /** Sends requests that fail, because failures are logged, too. */
  async function sendInvalidRequests(world: PartnerWorld, cookie: string): Promise<void> {
    await sendTokenRequest(command.url, world, { client_secret: "cs_wrong" });
    const url = `${command.url}/sandbox/v1/appointments`;
    await sendRequest("POST", url, { ...world.headers, "Idempotency-Key": "x".repeat(9) }, `{"notes":"${NOTES}"`);
    await fetch(`${queryApi.url}/api/v1/customers?limit=${PERSON.phone}`, { headers: { Cookie: `${cookie}x` } });
    const headers = { ...world.headers, Authorization: `Bearer ${world.token}x` };
    await fetch(`${queryApi.url}/sandbox/v1/appointments?cursor=${world.token}`, { headers });
    await fetch(`${queryApi.url}/${encodeURIComponent(PERSON.fullName)}`);
  }
});
