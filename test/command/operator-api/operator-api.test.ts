import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import type pg from "pg";
import { pino } from "pino";
import { createLinkCode } from "../../../command/operations/animal-link-operations.ts";
import { clinicCommands, staffCommands } from "../../../command/operations/commands.ts";
import { createLinkCodes } from "../../../command/operations/link-codes.ts";
import { registerOperator } from "../../../command/operations/operator-operations.ts";
import { grantMembership } from "../../../command/operations/people-operations.ts";
import { createOperatorApp } from "../../../command/operator-api/app.ts";
import { MAX_REQUESTS_PER_MINUTE } from "../../../command/operator-api/authorize.ts";
import { createKeyedHash } from "../../../shared/auth/keyed-hash.ts";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import { SUMMARY_INTERVAL } from "../../../shared/domain/aggregate.ts";
import { toStreamName } from "../../../shared/domain/events/category.ts";
import type { Permission } from "../../../shared/domain/events/people.ts";
import { type EventLog, LogUnavailableError } from "../../../shared/eventstore/log.ts";
import { type HttpServer, listen } from "../../../shared/http/listen.ts";
import { createRateLimiter, type RateLimiter } from "../../../shared/rate-limit/limiter.ts";
import { connectToLog, createTestPool } from "../../support/connections.ts";
import { PERSONAL_DATA_KEYS } from "../../support/data-keys.ts";
import {
  createApplication,
  createClinic,
  createTestOperatorContext,
  installApplication,
  type TestClinic,
} from "../../support/partner.ts";
import { createPlainLog } from "../../support/plain-log.ts";
import { getTestServers } from "../../support/stack.ts";
import { createLine, createOtherObjects, FIRST_COMMANDS, type Ids, OTHER_COMMANDS } from "../command-sequence.ts";

const ACTING_MEMBER = "X-SERVICE-Acting-Member";

describe("commands over HTTP", () => {
  let client: EventStoreDBClient;
  let log: EventLog;
  let pool: pg.Pool;
  let limiter: RateLimiter;
  let server: HttpServer;
  let clinic: TestClinic;
  let credential: string;
  /** Stream whose next append does not arrive. */
  let lostStream: string | undefined;
  const keys = JSON.parse(PERSONAL_DATA_KEYS);
  const secretBox = createSecretBox({ current: "k", keys: { k: Buffer.alloc(32).toString("base64") } });
  const context = createTestOperatorContext();

  before(async () => {
    const { eventstoreUrl, databaseUrls } = await getTestServers();
    const logger = pino({ enabled: false });
    client = connectToLog(eventstoreUrl);
    log = createPlainLog(client);
    const url = databaseUrls.command;
    pool = createTestPool(url, { statementTimeoutMs: 5_000 });
    limiter = createRateLimiter(pool, logger);
    const lossyLog: EventLog = {
      ...log,
      async append(stream, ...rest) {
        if (stream !== lostStream) return log.append(stream, ...rest);
        lostStream = undefined;
        throw new LogUnavailableError("the append is lost");
      },
    };
    const app = createOperatorApp({
      ...{ logger, limiter, brand: "SERVICE", isProxyTrusted: false },
      dependencies: { log: lossyLog, secretBox, linkCodes: createLinkCodes(keys) },
      requestHash: createKeyedHash(keys, "operator requests"),
      waitForReadModels: async () => undefined,
      checkReadiness: async () => ({}),
    });
    server = await listen(app.callback(), "127.0.0.1", 0);
    clinic = await createClinic(log);
    credential = await register();
  });
  after(async () => {
    await server.close();
    limiter.close();
  });

  async function register(scope: { clinicIds?: string[]; commands?: string[] } = {}): Promise<string> {
    const input = { name: "Desk", clinicIds: null, commands: null, expiresAt: null, ...scope };
    return (await registerOperator(log, { operatorId: randomUUID(), ...input }, context)).credential;
  }

  async function send(name: string, body: unknown, headers: Record<string, string | undefined> = {}) {
    const response = await fetch(`${server.url}/operations/v1/commands/${name.replaceAll(" ", "-")}`, {
      method: "POST",
      headers: {
        ...{ Authorization: `Bearer ${credential}`, "Content-Type": "application/json" },
        "Idempotency-Key": randomUUID(),
        ...(headers as Record<string, string>),
      },
      body: JSON.stringify(body),
    });
    // biome-ignore lint/suspicious/noExplicitAny: each test checks the body that it expects
    return { status: response.status, headers: response.headers, body: (await response.json()) as any };
  }

  const registerCustomer = (fields: object = {}, headers: Record<string, string> = {}) =>
    send("customer register", { clinicId: clinic.clinicId, fullName: "Ada Example", ...fields }, headers);

  async function grant(permissions: Permission[], branchIds: string[] = []): Promise<Record<string, string>> {
    const membershipId = randomUUID();
    const rights = { role: "manager" as const, permissions, branchIds };
    const acceptedAt = "2026-01-01T00:00:00.000Z";
    const member = { membershipId, clinicId: clinic.clinicId, userId: randomUUID(), acceptedAt };
    await grantMembership(log, { ...member, ...rights }, context);
    return { [ACTING_MEMBER]: membershipId };
  }

  it("every command about a clinic runs over HTTP, and a repeated request gets the first answer", async () => {
    const ids: Ids = {};
    const administrator = () => ({ [ACTING_MEMBER]: ids.membershipId as string });
    const run = async (name: string): Promise<void> => {
      const { command: _, ...input } = createLine(name, ids);
      const command = staffCommands.find((staffCommand) => staffCommand.name === name)!;
      if (!clinicCommands.includes(command)) {
        await command.run({ log, secretBox, linkCodes: createLinkCodes(keys) }, command.input.parse(input), context);
        return;
      }
      const isGrant = /^membership change|installation approve/.test(name);
      const headers = { "Idempotency-Key": randomUUID(), ...(isGrant && administrator()) };
      const first = await send(name, input, headers);
      expect(first.status, `${name}: ${JSON.stringify(first.body)}`).to.equal(command.creates ? 201 : 200);
      expect(first.body.events, name).to.not.deep.equal([]);
      expect(first.headers.get("X-SERVICE-Log-Position")).to.equal(first.body.position);
      if (command.creates) expect(first.body[command.creates]).to.equal(input[command.creates]);
      const again = await send(name, input, headers);
      if (!command.isImportable) return void expect(again.body.error).to.equal("secret_already_shown");
      expect([again.status, again.body], name).to.deep.equal([first.status, first.body]);
      expect(again.headers.get("Idempotent-Replayed")).to.equal("true");
    };
    for (const name of FIRST_COMMANDS) await run(name);
    await createOtherObjects(log, ids);
    for (const name of OTHER_COMMANDS) {
      if (name !== "membership grant") {
        await run(name);
        continue;
      }
      // A grant needs a member with the granted rights.
      const { command: _, ...first } = createLine(name, ids);
      await grantMembership(log, { ...(first as Parameters<typeof grantMembership>[1]) }, context);
    }
  });

  it("a repeated request gets the first answer although summaries of its stream follow", async () => {
    const application = await createApplication(log);
    await installApplication(log, application, clinic);
    const link = { applicationId: application.applicationId, clinicId: clinic.clinicId, animalId: clinic.animalId };
    const code = { ...link, covers: "appointments_read" as const, validMinutes: 60 };
    const createCode = () => createLinkCode({ log, linkCodes: createLinkCodes(keys) }, code, context);
    await createCode();
    const headers = { "Idempotency-Key": randomUUID() };
    const withdraw = () => send("animal link withdraw", { ...link, requestedBy: "owner" }, headers);
    const first = await withdraw();
    expect(first.body.events, JSON.stringify(first.body)).to.deep.equal(["AnimalLinkWithdrawn"]);
    for (let count = 0; count < 2 * SUMMARY_INTERVAL; count += 1) await createCode();
    const again = await withdraw();
    expect([again.status, again.body]).to.deep.equal([first.status, first.body]);
  });

  it("an id that the body omits is derived from the key, and another body with the key is refused", async () => {
    const headers = { "Idempotency-Key": randomUUID() };
    const first = await registerCustomer({}, headers);
    expect(first.status).to.equal(201);
    const again = await registerCustomer({}, headers);
    expect([again.status, again.body]).to.deep.equal([201, first.body]);
    const other = await registerCustomer({ fullName: "Eve Example" }, headers);
    expect([other.status, other.body.error]).to.deep.equal([409, "idempotency_conflict"]);
    expect(await log.read(`customer-${first.body.customerId}`)).to.have.length(1);
  });

  it("events record the operator, the member on whose behalf it acts, and no plain hash of the body", async () => {
    const member = await grant(["manage_schedule"]);
    const { body } = await registerCustomer({}, member);
    const [event] = await log.read(toStreamName({ name: "customer" } as never, body.customerId));
    const membership = await log.read(`membership-${member[ACTING_MEMBER]}`);
    const { userId } = membership[0]!.data as { userId: string };
    expect(event?.metadata.actor).to.deep.include({ type: "operator", onBehalfOf: userId });
    expect(event?.metadata.requestHash).to.match(/^[0-9a-f]{64}$/);
    const [hash, otherHash] = [1, 2].map((byte) => {
      const masterKeys = { current: "x", keys: { x: Buffer.alloc(32, byte).toString("base64") } };
      return createKeyedHash(masterKeys, "operator requests").hash("1");
    });
    expect(hash).to.not.equal(otherHash);
  });

  it("a hold whose append was lost is placed with the same request, and keeps its branch", async () => {
    const { clinicId, branchId, otherBranchId } = clinic;
    const room = await send("resource add", { clinicId, branchId, resourceType: "room", name: "Room" });
    const [holdId, { resourceId }] = [randomUUID(), room.body];
    lostStream = `hold-${holdId}`;
    const times = {
      startsAt: "2099-01-01T10:00:00Z",
      endsAt: "2099-01-01T11:00:00Z",
      expiresAt: "2099-01-01T09:00:00Z",
    };
    const { status, body } = await send("hold place", { clinicId, branchId, holdId, resourceId, ...times });
    expect([status, body.events]).to.deep.equal([201, ["HoldPlaced"]]);
    const release = async (...branchIds: string[]) =>
      send("hold release", { clinicId, holdId }, await grant(["manage_schedule"], branchIds));
    expect((await release(otherBranchId)).body.error).to.equal("acting_member_not_permitted");
    expect((await release(branchId)).body.events).to.deep.equal(["HoldReleased"]);
  });

  const refusals: [string, () => Promise<Awaited<ReturnType<typeof send>>>, number, string][] = [
    ["no credential", () => registerCustomer({}, { Authorization: "" }), 401, "missing_token"],
    [
      "a wrong credential",
      () => registerCustomer({}, { Authorization: `Bearer ${credential}x` }),
      401,
      "invalid_token",
    ],
    [
      "a clinic outside the scope",
      async () =>
        registerCustomer(
          {},
          { Authorization: `Bearer ${await register({ clinicIds: [(await createClinic(log)).clinicId] })}` },
        ),
      403,
      "insufficient_scope",
    ],
    [
      "a command outside the scope",
      async () =>
        registerCustomer({}, { Authorization: `Bearer ${await register({ commands: ["appointment confirm"] })}` }),
      403,
      "insufficient_scope",
    ],
    [
      "an unknown member",
      () => registerCustomer({}, { [ACTING_MEMBER]: randomUUID() }),
      403,
      "acting_member_not_permitted",
    ],
    [
      "a member of another clinic",
      async () => registerCustomer({ clinicId: (await createClinic(log)).clinicId }, await grant(["manage_schedule"])),
      403,
      "acting_member_not_permitted",
    ],
    [
      "a member without the permission",
      async () => registerCustomer({}, await grant(["manage_staff"])),
      403,
      "acting_member_not_permitted",
    ],
    [
      "a branch of which the member is not a member",
      async () =>
        send(
          "appointment request",
          { clinicId: clinic.clinicId, branchId: clinic.otherBranchId, scheduledAt: "2099-01-01T10:00:00Z" },
          await grant(["manage_schedule"], [clinic.branchId]),
        ),
      403,
      "acting_member_not_permitted",
    ],
    [
      "a grant of more permissions than the member has",
      async () => grantOverHttp(await grant(["manage_staff"])),
      403,
      "acting_member_not_permitted",
    ],
    ["a grant without a member", async () => grantOverHttp({}), 403, "acting_member_not_permitted"],
    [
      "a command that only operators may run, for a member",
      async () => send("clinic suspend", { clinicId: clinic.clinicId, reason: "x" }, await grant(["manage_tenant"])),
      403,
      "acting_member_not_permitted",
    ],
    ["a command without a clinic", () => send("partner register", {}), 404, "not_found"],
    [
      "a rule",
      () => send("appointment confirm", { clinicId: clinic.clinicId, appointmentId: randomUUID() }),
      409,
      "appointment_not_found",
    ],
    ["invalid fields", () => registerCustomer({ fullName: 7, colour: "red" }), 422, "validation_failed"],
    ["a missing key", () => registerCustomer({}, { "Idempotency-Key": "" }), 422, "validation_failed"],
    [
      "a body that is not JSON",
      () => registerCustomer({}, { "Content-Type": "text/plain" }),
      415,
      "unsupported_media_type",
    ],
  ];
  function grantOverHttp(headers: Record<string, string>) {
    const body = { clinicId: clinic.clinicId, userId: randomUUID(), role: "manager", permissions: ["manage_tenant"] };
    return send("membership grant", body, headers);
  }
  for (const [name, request, status, code] of refusals)
    it(`a command is refused with ${status} ${code} because of ${name}`, async () => {
      const { body, ...response } = await request();
      expect([response.status, body.error]).to.deep.equal([status, code]);
    });

  it("refusals name the fields, and a revoked credential is refused with the next request", async () => {
    const invalid = await registerCustomer({ fullName: 7, colour: "red" });
    expect(invalid.body.details.map(({ path }: { path: string }) => path)).to.have.members(["fullName", "colour"]);
    const refused = await send("appointment confirm", { clinicId: clinic.clinicId, appointmentId: randomUUID() });
    expect(refused.body.details[0].path).to.equal("appointmentId");
    const operatorId = randomUUID();
    const input = { operatorId, name: "Old", clinicIds: null, commands: null, expiresAt: null };
    const old = (await registerOperator(log, input, context)).credential;
    const headers = { Authorization: `Bearer ${old}` };
    expect((await registerCustomer({}, headers)).status).to.equal(201);
    const revoke = staffCommands.find(({ name }) => name === "operator revoke")!;
    await revoke.run({ log, secretBox, linkCodes: createLinkCodes(keys) }, { operatorId, reason: null }, context);
    expect((await registerCustomer({}, headers)).status).to.equal(401);
  });

  it("a credential has a rate limit", async () => {
    const operatorId = randomUUID();
    const input = { operatorId, name: "Busy", clinicIds: null, commands: null, expiresAt: null };
    const headers = { Authorization: `Bearer ${(await registerOperator(log, input, context)).credential}` };
    const count = () => limiter.count(`operator ${operatorId}`, MAX_REQUESTS_PER_MINUTE, 60);
    await Promise.all(Array.from({ length: MAX_REQUESTS_PER_MINUTE }, count));
    const { status, body } = await registerCustomer({}, headers);
    expect([status, body.error]).to.deep.equal([429, "rate_limit_exceeded"]);
    expect((await registerCustomer()).status).to.equal(201);
  });

  it("the document describes every command about a clinic", async () => {
    const document = (await (await fetch(`${server.url}/operations/v1/openapi.json`)).json()) as { paths: object };
    const paths = clinicCommands.map(({ name }) => `/operations/v1/commands/${name.replaceAll(" ", "-")}`);
    expect(Object.keys(document.paths)).to.deep.equal(paths);
    expect(JSON.stringify(document)).to.contain('"format":"date-time"');
  });
});
