import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import { toMetadata } from "../../../command/handling/handle.ts";
import { recoverDeliveries } from "../../../command/operations/recover-deliveries.ts";
import {
  disableEndpoint,
  type EndpointReference,
  registerEndpoint,
} from "../../../command/operations/webhook-endpoint-operations.ts";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { createEventLog, type EventLog, LogUnavailableError } from "../../../shared/eventstore/log.ts";
import { type OwnLog, startOwnLog } from "../../support/own-log.ts";
import { createTestOperatorContext } from "../../support/partner.ts";
import { runClinic } from "../cli/terminal.ts";

const HOUR_MS = 3_600_000;
const NOON_MS = Date.parse("2026-05-04T12:00:00.000Z");
const FAILED_EVENT_TYPE = "WebhookDeliveryFailed";
const SKIPPED_EVENT_TYPE = "WebhookDeliverySkipped";
const REQUESTED_EVENT_TYPE = "WebhookDeliveryReplayRequested";
const EXPIRED_EVENT_TYPE = "WebhookDeliveryExpired";

describe("the recovery of an endpoint's deliveries", () => {
  let ownLog: OwnLog;
  let client: EventStoreDBClient;
  let log: EventLog;
  let env: NodeJS.ProcessEnv;
  const secretBox = createSecretBox({ current: "k", keys: { k: Buffer.alloc(32).toString("base64") } });

  before(async () => {
    ownLog = await startOwnLog();
    env = { EVENTSTORE_URL: ownLog.eventstoreUrl };
    client = connectEventStore(env.EVENTSTORE_URL ?? "", "test");
    log = createEventLog(client);
  });
  after(async () => {
    await client.dispose();
    await ownLog.stop();
  });

  async function registerTestEndpoint(): Promise<EndpointReference> {
    const owner = { applicationId: randomUUID(), clinicId: randomUUID(), environment: "sandbox" } as const;
    const input = { owner, url: "https://hooks.example.com/", events: ["appointment.created" as const] };
    const { endpoint } = await registerEndpoint({ log, secretBox }, input, createTestOperatorContext());
    return { endpointId: endpoint.id, owner };
  }

  /** Records the given events of a new delivery, one hour apart. Returns the id of the delivery. */
  async function createDelivery(
    { endpointId, owner }: EndpointReference,
    firstEventMs: number,
    ...eventTypes: string[]
  ): Promise<string> {
    const deliveryId = randomUUID();
    const facts = eventTypes.map((type, index) => {
      const data = { deliveryId, endpointId, ...(type === FAILED_EVENT_TYPE && { attempts: 8 }) };
      const context = createTestOperatorContext(firstEventMs + index * HOUR_MS);
      const metadata = toMetadata({ ...context, clinicId: owner.clinicId });
      return { id: randomUUID(), event: { type, data } as CatalogEvent, metadata };
    });
    await log.append(`webhookDelivery-${deliveryId}`, -1n, facts);
    return deliveryId;
  }

  const readTypes = async (deliveryId: string) =>
    (await log.read(`webhookDelivery-${deliveryId}`)).map(({ type }) => type as string);
  const recoverEndpointDeliveries = (
    endpoint: EndpointReference,
    options: { since?: number; until?: number; isDryRun?: boolean; maxDeliveries?: number } = {},
    recoveryLog = log,
  ) =>
    recoverDeliveries(
      { client, log: recoveryLog },
      { endpointId: endpoint.endpointId, since: NOON_MS, until: undefined, isDryRun: false, ...options },
      createTestOperatorContext(),
      () => undefined,
    );

  it("a recovery replays one endpoint's failed and skipped deliveries since a given time, and a dry run counts deliveries", async () => {
    const [ownEndpoint, otherEndpoint] = [await registerTestEndpoint(), await registerTestEndpoint()];
    const replayableDeliveryIds = [
      await createDelivery(ownEndpoint, NOON_MS, FAILED_EVENT_TYPE),
      await createDelivery(ownEndpoint, NOON_MS + HOUR_MS, SKIPPED_EVENT_TYPE),
      await createDelivery(
        ownEndpoint,
        NOON_MS - 2 * HOUR_MS,
        FAILED_EVENT_TYPE,
        REQUESTED_EVENT_TYPE,
        FAILED_EVENT_TYPE,
      ),
    ];
    const otherDeliveryIds = [
      await createDelivery(ownEndpoint, NOON_MS - 1, FAILED_EVENT_TYPE),
      await createDelivery(ownEndpoint, NOON_MS, FAILED_EVENT_TYPE, REQUESTED_EVENT_TYPE),
      await createDelivery(ownEndpoint, NOON_MS, FAILED_EVENT_TYPE, REQUESTED_EVENT_TYPE, EXPIRED_EVENT_TYPE),
      await createDelivery(otherEndpoint, NOON_MS, FAILED_EVENT_TYPE),
    ];
    const typesBefore = await Promise.all([...replayableDeliveryIds, ...otherDeliveryIds].map(readTypes));
    expect(await recoverEndpointDeliveries(ownEndpoint, { isDryRun: true })).to.deep.equal({
      found: 3,
      requested: 0,
      left: 0,
      unreadable: 0,
    });
    expect(await Promise.all([...replayableDeliveryIds, ...otherDeliveryIds].map(readTypes))).to.deep.equal(
      typesBefore,
    );
    expect(await recoverEndpointDeliveries(ownEndpoint)).to.deep.equal({
      found: 3,
      requested: 3,
      left: 0,
      unreadable: 0,
    });
    const typesAfter = await Promise.all([...replayableDeliveryIds, ...otherDeliveryIds].map(readTypes));
    expect(typesAfter).to.deep.equal(
      typesBefore.map((types, index) => (index < 3 ? [...types, REQUESTED_EVENT_TYPE] : types)),
    );
    const [request] = (await log.read(`webhookDelivery-${replayableDeliveryIds[0]}`)).slice(-1);
    expect(request!.metadata).to.deep.include({ clinicId: ownEndpoint.owner.clinicId, environment: "sandbox" });
  });

  it("a second recovery replays only deliveries that failed after the first recovery", async () => {
    const endpoint = await registerTestEndpoint();
    const [firstDeliveryId] = [
      await createDelivery(endpoint, NOON_MS, FAILED_EVENT_TYPE),
      await createDelivery(endpoint, NOON_MS, SKIPPED_EVENT_TYPE),
    ];
    expect(await recoverEndpointDeliveries(endpoint)).to.include({ found: 2, requested: 2 });
    expect(await recoverEndpointDeliveries(endpoint)).to.include({ found: 0, requested: 0 });
    const event = {
      type: FAILED_EVENT_TYPE,
      data: { deliveryId: firstDeliveryId, endpointId: endpoint.endpointId, attempts: 9 },
    };
    const metadata = toMetadata({ ...createTestOperatorContext(), clinicId: endpoint.owner.clinicId });
    const fact = { id: randomUUID(), event: event as CatalogEvent, metadata };
    await log.append(`webhookDelivery-${firstDeliveryId}`, 1n, [fact]);
    expect(await recoverEndpointDeliveries(endpoint)).to.include({ found: 1, requested: 1 });
    expect(await readTypes(firstDeliveryId!)).to.deep.equal([
      FAILED_EVENT_TYPE,
      REQUESTED_EVENT_TYPE,
      FAILED_EVENT_TYPE,
      REQUESTED_EVENT_TYPE,
    ]);
  });

  it("a recovery does not replay deliveries that failed at or after the end of the range", async () => {
    const endpoint = await registerTestEndpoint();
    const [insideDeliveryId, outsideDeliveryId] = [
      await createDelivery(endpoint, NOON_MS, FAILED_EVENT_TYPE),
      await createDelivery(endpoint, NOON_MS - HOUR_MS, FAILED_EVENT_TYPE, REQUESTED_EVENT_TYPE, FAILED_EVENT_TYPE),
    ];
    expect(await recoverEndpointDeliveries(endpoint, { until: NOON_MS + HOUR_MS })).to.include({
      found: 1,
      requested: 1,
    });
    expect([await readTypes(insideDeliveryId), (await readTypes(outsideDeliveryId)).length]).to.deep.equal([
      [FAILED_EVENT_TYPE, REQUESTED_EVENT_TYPE],
      3,
    ]);
  });

  it("two concurrent recoveries together request only one replay of each delivery", async () => {
    const endpoint = await registerTestEndpoint();
    const deliveryIds = await Promise.all(
      Array.from({ length: 30 }, () => createDelivery(endpoint, NOON_MS, FAILED_EVENT_TYPE)),
    );
    const recoveries = await Promise.all([recoverEndpointDeliveries(endpoint), recoverEndpointDeliveries(endpoint)]);
    const requestedCount = recoveries.reduce((sum, recovery) => sum + recovery.requested, 0);
    expect(requestedCount).to.equal(30);
    for (const id of deliveryIds) expect(await readTypes(id)).to.deep.equal([FAILED_EVENT_TYPE, REQUESTED_EVENT_TYPE]);
  });

  it("a recovery requests at most 100 replays per second", async () => {
    const endpoint = await registerTestEndpoint();
    const create = () => createDelivery(endpoint, NOON_MS, FAILED_EVENT_TYPE);
    await Promise.all(Array.from({ length: 101 }, create));
    const readTimes: number[] = [];
    const timedLog: EventLog = {
      ...log,
      read: (stream, ...readArgs) => {
        if (stream.startsWith("webhookDelivery-")) readTimes.push(performance.now());
        return log.read(stream, ...readArgs);
      },
    };
    expect(await recoverEndpointDeliveries(endpoint, {}, timedLog)).to.include({ requested: 101 });
    expect(readTimes.at(-1)! - readTimes[0]!).to.be.above(900);
  });

  it("if an outage of the event log stops a recovery, a second recovery replays the remaining deliveries", async () => {
    const endpoint = await registerTestEndpoint();
    const deliveryIds = await Promise.all(
      Array.from({ length: 20 }, () => createDelivery(endpoint, NOON_MS, FAILED_EVENT_TYPE)),
    );
    let appendCount = 0;
    const failDuringOutage = () => {
      if (appendCount > 5) throw new LogUnavailableError("gone");
    };
    const failingLog: EventLog = {
      ...log,
      readLast: async (...readArgs) => {
        failDuringOutage();
        return log.readLast(...readArgs);
      },
      append: async (...appendArgs) => {
        appendCount += 1;
        failDuringOutage();
        return log.append(...appendArgs);
      },
    };
    const error = await recoverEndpointDeliveries(endpoint, {}, failingLog).catch((thrown: unknown) => thrown);
    expect(error).to.be.instanceOf(LogUnavailableError);
    expect(await recoverEndpointDeliveries(endpoint)).to.include({ found: 15, requested: 15 });
    for (const id of deliveryIds) expect(await readTypes(id)).to.deep.equal([FAILED_EVENT_TYPE, REQUESTED_EVENT_TYPE]);
  });

  it("a recovery replays all deliveries except those for which the log or the code fails", async () => {
    const endpoint = await registerTestEndpoint();
    const deliveryIds: string[] = [];
    for (let count = 0; count < 4; count += 1)
      deliveryIds.push(await createDelivery(endpoint, NOON_MS, FAILED_EVENT_TYPE));
    const [failingId, brokenId, ...otherIds] = deliveryIds;
    const failingLog: EventLog = {
      ...log,
      append: async (stream, ...appendArgs) => {
        if (stream === `webhookDelivery-${failingId}`) throw new LogUnavailableError("no answer");
        if (stream === `webhookDelivery-${brokenId}`) throw new TypeError("broken");
        return log.append(stream, ...appendArgs);
      },
    };
    expect(await recoverEndpointDeliveries(endpoint, {}, failingLog)).to.include({ found: 4, requested: 2, left: 2 });
    for (const id of otherIds) expect(await readTypes(id)).to.deep.equal([FAILED_EVENT_TYPE, REQUESTED_EVENT_TYPE]);
  });

  it("a recovery of too many deliveries is refused, but recoveries of shorter time ranges succeed", async () => {
    const endpoint = await registerTestEndpoint();
    for (let count = 0; count < 5; count += 1)
      await createDelivery(endpoint, NOON_MS + count * HOUR_MS, FAILED_EVENT_TYPE);
    const error = await recoverEndpointDeliveries(endpoint, { maxDeliveries: 3 }).catch((thrown: unknown) => thrown);
    expect(error).to.have.property("code", "too_many_deliveries");
    expect(await recoverEndpointDeliveries(endpoint, { maxDeliveries: 3, until: NOON_MS + 3 * HOUR_MS })).to.include({
      found: 3,
      requested: 3,
    });
    const secondRangeOptions = { maxDeliveries: 3, since: NOON_MS + 3 * HOUR_MS };
    expect(await recoverEndpointDeliveries(endpoint, secondRangeOptions)).to.include({ found: 2, requested: 2 });
  });

  describe("from the command line", () => {
    const createArgs = ({ endpointId }: EndpointReference) => [
      ...["webhooks", "recover", "--endpoint", endpointId, "--since", "2026-05-04T14:00:00+02:00"],
    ];

    it("`webhooks recover` prints the progress and the number of deliveries", async () => {
      const endpoint = await registerTestEndpoint();
      for (let count = 0; count < 4; count += 1) await createDelivery(endpoint, NOON_MS, FAILED_EVENT_TYPE);
      const dryRunResult = await runClinic([...createArgs(endpoint), "--dry-run"], { env });
      const line = "webhooks recover: 4 deliveries failed or were skipped; none was replayed (dry run)";
      expect(dryRunResult).to.deep.equal({ code: 0, outputLines: [line], errorLines: [] });
      const result = await runClinic(createArgs(endpoint), { env });
      expect([result.code, result.outputLines]).to.deep.equal([
        0,
        ["webhooks recover: 4 of 4 deliveries will be replayed"],
      ]);
      expect(result.errorLines.at(-1)).to.equal("webhooks recover: 4 of 4 deliveries");
      const secondResult = await runClinic([...createArgs(endpoint), "--json"], { env });
      expect(JSON.parse(secondResult.outputLines.join())).to.deep.equal({
        command: "webhooks recover",
        id: endpoint.endpointId,
        dryRun: false,
        found: 0,
        requested: 0,
        left: 0,
        unreadable: 0,
      });
    });

    it("`webhooks recover` refuses unknown and disabled endpoints, but accepts a disabled endpoint for a dry run", async () => {
      const endpoint = await registerTestEndpoint();
      await createDelivery(endpoint, NOON_MS, SKIPPED_EVENT_TYPE);
      await disableEndpoint(log, endpoint, createTestOperatorContext());
      const { code, errorLines: err } = await runClinic(createArgs(endpoint), { env });
      expect(code).to.equal(3);
      expect(err.join()).to.contain("(webhook_endpoint_disabled)");
      expect((await runClinic([...createArgs(endpoint), "--dry-run"], { env })).outputLines.join()).to.contain(
        "1 delivery failed or was skipped",
      );
      const unknownResult = await runClinic(createArgs({ ...endpoint, endpointId: randomUUID() }), { env });
      expect(unknownResult.errorLines.join()).to.contain("(webhook_endpoint_not_found)");
    });

    it("`webhooks recover` prints which options are missing or invalid", async () => {
      const { code, errorLines: err } = await runClinic(["webhooks", "recover", "--since", "yesterday"], { env });
      const since = "--since must be an RFC 3339 date-time with an offset, such as 2026-05-04T09:00:00+02:00";
      expect([code, err]).to.deep.equal([2, [`clinic: --endpoint is missing; ${since}`]]);
    });
  });
});
