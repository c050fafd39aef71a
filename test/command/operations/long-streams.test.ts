import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import { handle, loadAggregate, toMetadata } from "../../../command/handling/handle.ts";
import {
  createLinkCode,
  endLink,
  redeemLinkCode,
  withdrawLink,
} from "../../../command/operations/animal-link-operations.ts";
import { revokeInstallation } from "../../../command/operations/installation-operations.ts";
import { createLinkCodes } from "../../../command/operations/link-codes.ts";
import { selectClinic } from "../../../command/operations/people-operations.ts";
import { recordErasure } from "../../../command/operations/personal-data/record-erasure.ts";
import { requestReplay } from "../../../command/operations/replay-operations.ts";
import { loadSandbox, resetSandbox } from "../../../command/operations/sandbox-operations.ts";
import {
  changeEndpoint,
  disableOwnEndpoint,
  enableOwnEndpoint,
  MAX_ENDPOINTS,
  registerEndpoint,
  revokeEndpoint,
  rotateSecret,
  testEndpoint,
} from "../../../command/operations/webhook-endpoint-operations.ts";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import type { Aggregate } from "../../../shared/domain/aggregate.ts";
import { animalConsentAggregate } from "../../../shared/domain/clinic/animal-consent.ts";
import { portalUserAggregate } from "../../../shared/domain/clinic/portal-user.ts";
import { DomainError } from "../../../shared/domain/domain-error.ts";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import type { Category, EventOf } from "../../../shared/domain/events/category.ts";
import { deriveInstallationId, deriveSandboxClinicId } from "../../../shared/domain/events/ids.ts";
import { parseStoredEvent } from "../../../shared/domain/events/stored-event.ts";
import { installationAggregate } from "../../../shared/domain/partner/installation.ts";
import { type Endpoint, endpointAggregate } from "../../../shared/domain/partner/webhook-endpoint.ts";
import { EMPTY_STREAM, type EventLog } from "../../../shared/eventstore/log.ts";
import { connectToLog } from "../../support/connections.ts";
import { PERSONAL_DATA_KEYS } from "../../support/data-keys.ts";
import { startOwnLog } from "../../support/own-log.ts";
import {
  createApplication,
  createClinic,
  createTestOperatorContext,
  installApplication,
} from "../../support/partner.ts";
import { createPlainLog } from "../../support/plain-log.ts";
import { useResource } from "../../support/resources.ts";

const EVENT_COUNT = 2_000;

/** Maximum number of events that one command may read. */
const MAX_EVENTS_READ = 250;

async function expectRefused(command: Promise<unknown>): Promise<void> {
  const error = await command.catch((error: unknown) => error);
  expect(error).to.be.instanceOf(DomainError).with.property("code", "webhook_endpoint_limit_reached");
}

const secretBox = createSecretBox({ current: "k", keys: { k: Buffer.alloc(32).toString("base64") } });
const secret = { secretId: randomUUID(), encryptedSecret: "sealed" };
const previousExpiresAt = "2026-05-05T08:00:00.000Z";

describe("commands on streams that a tenant has lengthened by 2,000 events", () => {
  const ownLog = useResource(startOwnLog);
  let client: EventStoreDBClient;
  let log: EventLog;
  let eventsRead = 0;
  const [applicationId, clinicId] = [randomUUID(), randomUUID()];
  const context = { ...createTestOperatorContext(), clinicId };
  const owner = { applicationId, clinicId, environment: "production" } as const;

  before(async () => {
    client = connectToLog(ownLog.eventstoreUrl);
    const readStream = client.readStream.bind(client);
    const countingRead = async function* (...args: Parameters<typeof readStream>) {
      for await (const event of readStream(...args)) {
        eventsRead += 1;
        yield event;
      }
    };
    log = createPlainLog(Object.assign(client, { readStream: countingRead }));
  });

  const findClinic = (event: { data: object } | undefined) =>
    event && "clinicId" in event.data && { clinicId: event.data.clinicId as string };

  /** Appends the events repeatedly, as commands do, until the stream has 2,000 more events. */
  async function lengthen<C extends Category, State>(
    aggregate: Aggregate<C, State>,
    id: string,
    events: EventOf<C>[],
  ): Promise<void> {
    for (let count = 0; count < EVENT_COUNT; count += events.length)
      await handle(log, aggregate, id, () => events, {
        ...context,
        ...findClinic(events[0] as unknown as { data: object }),
      });
  }

  /** Creates a stream with 2,000 copies of an event. */
  async function fill(stream: string, event: CatalogEvent): Promise<void> {
    const metadata = toMetadata({ ...context, ...findClinic(event) });
    const newEvents = Array.from({ length: 1_000 }, () => ({ id: randomUUID(), event, metadata }));
    for (let revision = EMPTY_STREAM; revision < EVENT_COUNT - 1; revision += BigInt(newEvents.length))
      await log.append(
        stream,
        revision,
        newEvents.map((newEvent) => ({ ...newEvent, id: randomUUID() })),
      );
  }

  async function expectBounded<Result>(name: string, command: Promise<Result>): Promise<Result> {
    eventsRead = 0;
    const result = await command;
    expect(eventsRead, name).to.be.within(1, MAX_EVENTS_READ);
    return result;
  }

  async function createLinkWorld() {
    const clinic = await createClinic(log);
    const [application, otherApplication] = [await createApplication(log), await createApplication(log)];
    for (const installed of [application, otherApplication]) await installApplication(log, installed, clinic);
    const ids = { applicationId: application.applicationId, clinicId: clinic.clinicId, animalId: clinic.animalId };
    const input = { ...ids, covers: "appointments_write" as const, validMinutes: 60 };
    const linkCodes = createLinkCodes(JSON.parse(PERSONAL_DATA_KEYS));
    return { linkCodes, otherApplicationId: otherApplication.applicationId, input };
  }

  async function registerLongEndpoint() {
    const { endpoint } = await registerEndpoint(
      { log, secretBox },
      { owner, url: "https://hooks.example.com/", events: ["appointment.created"] },
      context,
    );
    const { id: endpointId } = endpoint;
    const toggles = Array.from({ length: 24 }, () => [
      { type: "WebhookEndpointDisabled", data: { endpointId, reason: "partner" } } as const,
      { type: "WebhookEndpointEnabled", data: { endpointId } } as const,
    ]).flat();
    await lengthen(endpointAggregate, endpointId, [
      { type: "WebhookEndpointChanged", data: { endpointId, rateLimitPerSecond: 7, ordering: "appointment" } },
      { type: "WebhookSecretRotated", data: { endpointId, ...secret, previousExpiresAt } },
      ...toggles,
    ]);
    return { endpointId, owner };
  }

  it("changes, switches, rotations, tests and replays of an endpoint read few events, and find its whole state", async () => {
    const reference = await registerLongEndpoint();
    const { endpointId } = reference;
    const stream = `webhookEndpoint-${endpointId}`;
    const statesByRevision = new Map<bigint, Endpoint | undefined>();
    let state: Endpoint | undefined;
    for await (const { event } of client.readStream(stream)) {
      if (!event) continue;
      state = endpointAggregate.evolve(
        state,
        parseStoredEvent(event) as Parameters<typeof endpointAggregate.evolve>[1],
      );
      statesByRevision.set(event.revision, state);
    }
    expect(statesByRevision.size).to.be.above(EVENT_COUNT);
    expect(state).to.include({ rateLimitPerSecond: 7, ordering: "appointment", status: "active" });
    const { state: loadedState } = await expectBounded("load", loadAggregate(log, endpointAggregate, endpointId));
    expect(loadedState).to.deep.equal(state);
    for (const revision of [0n, 99n, 100n, 1_234n]) {
      const history = await expectBounded("earlier state", log.read<CatalogEvent>(stream, revision));
      expect(history.at(-1)?.revision).to.equal(revision);
      const foldedState = (history as Parameters<typeof endpointAggregate.evolve>[1][]).reduce<Endpoint | undefined>(
        endpointAggregate.evolve,
        undefined,
      );
      expect(foldedState).to.deep.equal(statesByRevision.get(revision));
    }

    const dependencies = { log, secretBox };
    const changeRequest = { ...reference, changes: { headers: { "X-Key": "k" } }, permittedBranchIds: [] };
    await expectBounded("change", changeEndpoint(dependencies, changeRequest, context));
    await expectBounded("rotate", rotateSecret(dependencies, reference, context));
    await expectBounded("test", testEndpoint(log, reference, context));
    const replay = { ...reference, request: { since: "2026-05-05T08:00:00.000Z" }, idempotencyKey: "k" };
    await expectBounded("replay", requestReplay(log, replay, context));
    await expectBounded("disable", disableOwnEndpoint(log, reference, context));
    await expectBounded("enable", enableOwnEndpoint(log, reference, context));
    const { state: revokedState } = await expectBounded("revoke", revokeEndpoint(log, reference, context));
    expect(revokedState).to.include({ status: "revoked", rateLimitPerSecond: 7 });
    expect(revokedState?.headers.map(({ name }) => name)).to.deep.equal(["X-Key"]);
  });

  it("a command about an installation that was requested, approved and revoked hundreds of times reads few events", async () => {
    const installationId = deriveInstallationId(applicationId, clinicId);
    const ids = { installationId, applicationId, clinicId };
    const access = { scopes: ["clinic:read" as const], branchIds: null, animalAccess: "all" as const };
    const grant = { ...access, approvedBy: null, rateLimitPerMinute: 60 };
    const cycle = Array.from({ length: 10 }, () => [
      { type: "InstallationRevoked", data: { installationId, reason: null } } as const,
      { type: "InstallationRequested", data: { ...ids, scopes: grant.scopes } } as const,
      { type: "InstallationApproved", data: { ...ids, ...grant } } as const,
    ]).flat();
    await lengthen(installationAggregate, installationId, cycle);
    const { state } = await expectBounded("load", loadAggregate(log, installationAggregate, installationId));
    expect(state).to.include({ status: "approved", rateLimitPerMinute: 60 });
    const revocation = { applicationId, clinicId, reason: null };
    const { state: revokedState } = await expectBounded("revoke", revokeInstallation(log, revocation, context));
    expect(revokedState?.status).to.equal("revoked");
  });

  it("a registration beyond the quota reads one event of each endpoint, and succeeds after a revocation", async () => {
    const otherOwner = { ...owner, applicationId: randomUUID() };
    const input = { owner: otherOwner, url: "https://hooks.example.com/", events: ["appointment.created" as const] };
    const register = () => registerEndpoint({ log, secretBox }, input, context);
    const endpointIds: string[] = [];
    for (let count = 0; count < MAX_ENDPOINTS; count += 1) {
      const { endpoint } = await register();
      endpointIds.push(endpoint.id);
      const { id: endpointId } = endpoint;
      const changes = Array.from(
        { length: 40 },
        () => ({ type: "WebhookEndpointEnabled", data: { endpointId } }) as const,
      );
      await handle(log, endpointAggregate, endpointId, () => changes, context);
    }
    await expectBounded("refused registration", expectRefused(register()));
    const [summarizedId = "", reportedId = ""] = endpointIds;
    // The 50th change, so that a summary follows the revocation.
    await revokeEndpoint(log, { endpointId: summarizedId, owner: otherOwner }, context);
    await expectBounded("registration", register());
    await revokeEndpoint(log, { endpointId: reportedId, owner: otherOwner }, context);
    const data = { endpointId: reportedId, since: previousExpiresAt, failedAttempts: 3 };
    const report = { type: "WebhookEndpointFailureReported", data } as const;
    await handle(log, endpointAggregate, reportedId, () => [report], context);
    await expectBounded("registration", register());
  });

  it("commands on consents of an animal read few events, and keep the link of another application", async () => {
    const world = await createLinkWorld();
    const { linkCodes, otherApplicationId, input } = world;
    const { animalId } = input;
    const other = { ...input, applicationId: otherApplicationId };
    const { secrets: otherSecrets } = await createLinkCode({ log, linkCodes }, other, context);
    const redeem = (applicationId: string, code: string) =>
      redeemLinkCode(
        { log, linkCodes },
        { applicationId, clinicId: input.clinicId, code, sandbox: null },
        { ...context, clinicId: input.clinicId },
      );
    const { link: otherLink } = await redeem(otherApplicationId, otherSecrets.code);
    const link = { animalId, clinicId: input.clinicId, applicationId: input.applicationId, linkId: randomUUID() };
    const created = { ...link, covers: input.covers, expiresAt: previousExpiresAt };
    const cycle = Array.from({ length: 24 }, () => [
      { type: "AnimalLinkCodeCreated", data: created } as const,
      { type: "AnimalLinkWithdrawn", data: { ...link, requestedBy: "owner" } } as const,
    ]).flat();
    await lengthen(animalConsentAggregate, animalId, cycle);
    const { secrets } = await expectBounded("create", createLinkCode({ log, linkCodes }, input, context));
    const redemption = await expectBounded("redeem", redeem(input.applicationId, secrets.code));
    const ending = { ...link, linkId: redemption.link.linkId, sandbox: null, requestedBy: "application" as const };
    await expectBounded("end", endLink(log, ending, { ...context, clinicId: input.clinicId }));
    const { state } = await expectBounded("withdraw", withdrawLink(log, { ...other, requestedBy: "owner" }, context));
    expect(state?.applications[input.applicationId]).to.include({ code: null, link: null });
    expect(state?.applications[otherApplicationId]).to.include({ link: null, lastLinkId: otherLink.linkId });
  });

  it("a portal user's selection reads few events, and an erasure stays known", async () => {
    const clinic = await createClinic(log);
    const userId = randomUUID();
    const erased = { categories: ["notes" as const], cause: "request" as const, reason: "asked" };
    await recordErasure.portalUser(log, { id: userId, ...erased }, context);
    const selections = [clinic.branchId, null].map(
      (branchId) => ({ type: "ClinicSelected", data: { userId, clinicId: clinic.clinicId, branchId } }) as const,
    );
    await lengthen(portalUserAggregate, userId, Array.from({ length: 20 }, () => selections).flat());
    const selection = { userId, clinicId: clinic.clinicId, branchId: clinic.branchId };
    const { state } = await expectBounded("select", selectClinic(log, selection, context));
    expect(state)
      .to.include({ branchId: clinic.branchId })
      .and.deep.include({ erasedCategories: ["notes"] });
  });

  it("registrations of endpoints and resets of a sandbox read few events", async () => {
    const places = [{ endpointId: randomUUID(), takenAt: previousExpiresAt }];
    const otherOwner = { ...owner, applicationId: randomUUID() };
    const installationId = deriveInstallationId(otherOwner.applicationId, clinicId);
    const placeTaken: CatalogEvent = { type: "WebhookEndpointPlaceTaken", data: { ownerId: installationId, places } };
    await fill(`webhookEndpointPlaces-${installationId}`, placeTaken);
    const registration = { url: "https://hooks.example.com/", events: ["appointment.created" as const] };
    const input = { owner: otherOwner, ...registration };
    await expectBounded("register", registerEndpoint({ log, secretBox }, input, context));

    const sandboxClinicId = deriveSandboxClinicId(applicationId);
    const reset = { applicationId, clinicId: sandboxClinicId, generation: 1, day: "2026-05-04", events: [] };
    await fill(`sandbox-${applicationId}`, { type: "SandboxReset", data: reset });
    await expectBounded("reset", resetSandbox(log, { applicationId }, context));
    await expectBounded("sandbox", loadSandbox(log, applicationId));
  });
});
