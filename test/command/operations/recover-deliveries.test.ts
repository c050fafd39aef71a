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
import { operatorContext } from "../../support/partner.ts";
import { testServers } from "../../support/stack.ts";
import { runClinic } from "../cli/terminal.ts";

const HOUR_MS = 3_600_000;
const NOON = Date.parse("2026-05-04T12:00:00.000Z");
const FAILED = "WebhookDeliveryFailed";
const SKIPPED = "WebhookDeliverySkipped";
const REQUESTED = "WebhookDeliveryReplayRequested";
const EXPIRED = "WebhookDeliveryExpired";

describe("the recovery of an endpoint's deliveries", () => {
  let client: EventStoreDBClient;
  let log: EventLog;
  let env: NodeJS.ProcessEnv;
  const secretBox = createSecretBox({ current: "k", keys: { k: Buffer.alloc(32).toString("base64") } });

  before(async () => {
    env = { EVENTSTORE_URL: (await testServers()).eventstoreUrl };
    client = connectEventStore(env.EVENTSTORE_URL ?? "", "test");
    log = createEventLog(client);
  });
  after(() => client.dispose());

  async function registerTestEndpoint(): Promise<EndpointReference> {
    const owner = { applicationId: randomUUID(), clinicId: randomUUID(), environment: "sandbox" } as const;
    const input = { owner, url: "https://hooks.example.com/", events: ["appointment.created" as const] };
    const { endpoint } = await registerEndpoint({ log, secretBox }, input, operatorContext());
    return { endpointId: endpoint.id, owner };
  }

  /** Records the given events of a new delivery, one hour apart. Returns the id of the delivery. */
  async function createDelivery({ endpointId }: EndpointReference, from: number, ...types: string[]): Promise<string> {
    const deliveryId = randomUUID();
    const facts = types.map((type, index) => {
      const data = { deliveryId, endpointId, ...(type === FAILED && { attempts: 8 }) };
      const metadata = toMetadata(operatorContext(from + index * HOUR_MS));
      return { id: randomUUID(), event: { type, data } as CatalogEvent, metadata };
    });
    await log.append(`webhookDelivery-${deliveryId}`, -1n, facts);
    return deliveryId;
  }

  const typesOf = async (deliveryId: string) =>
    (await log.read(`webhookDelivery-${deliveryId}`)).map(({ type }) => type as string);
  const recover = (
    of: EndpointReference,
    more: { since?: number; until?: number; isDryRun?: boolean; maxDeliveries?: number } = {},
    by = log,
  ) =>
    recoverDeliveries(
      { client, log: by },
      { endpointId: of.endpointId, since: NOON, until: undefined, isDryRun: false, ...more },
      operatorContext(),
      () => undefined,
    );

  it("a recovery replays one endpoint's failed and skipped deliveries since a given time, and a dry run counts deliveries", async () => {
    const [mine, other] = [await registerTestEndpoint(), await registerTestEndpoint()];
    const replayable = [
      await createDelivery(mine, NOON, FAILED),
      await createDelivery(mine, NOON + HOUR_MS, SKIPPED),
      await createDelivery(mine, NOON - 2 * HOUR_MS, FAILED, REQUESTED, FAILED),
    ];
    const others = [
      await createDelivery(mine, NOON - 1, FAILED),
      await createDelivery(mine, NOON, FAILED, REQUESTED),
      await createDelivery(mine, NOON, FAILED, REQUESTED, EXPIRED),
      await createDelivery(other, NOON, FAILED),
    ];
    const before = await Promise.all([...replayable, ...others].map(typesOf));
    expect(await recover(mine, { isDryRun: true })).to.deep.equal({
      ...{ found: 3, requested: 0, left: 0 },
    });
    expect(await Promise.all([...replayable, ...others].map(typesOf))).to.deep.equal(before);
    expect(await recover(mine)).to.deep.equal({ found: 3, requested: 3, left: 0 });
    const after = await Promise.all([...replayable, ...others].map(typesOf));
    expect(after).to.deep.equal(before.map((types, index) => (index < 3 ? [...types, REQUESTED] : types)));
    const [request] = (await log.read(`webhookDelivery-${replayable[0]}`)).slice(-1);
    expect(request!.metadata).to.deep.include({ clinicId: mine.owner.clinicId, environment: "sandbox" });
  });

  it("a second recovery replays only deliveries that failed after the first recovery", async () => {
    const of = await registerTestEndpoint();
    const [first] = [await createDelivery(of, NOON, FAILED), await createDelivery(of, NOON, SKIPPED)];
    expect(await recover(of)).to.include({ found: 2, requested: 2 });
    expect(await recover(of)).to.include({ found: 0, requested: 0 });
    const event = { type: FAILED, data: { deliveryId: first, endpointId: of.endpointId, attempts: 9 } };
    const fact = { id: randomUUID(), event: event as CatalogEvent, metadata: toMetadata(operatorContext()) };
    await log.append(`webhookDelivery-${first}`, 1n, [fact]);
    expect(await recover(of)).to.include({ found: 1, requested: 1 });
    expect(await typesOf(first!)).to.deep.equal([FAILED, REQUESTED, FAILED, REQUESTED]);
  });

  it("a recovery does not replay deliveries that failed at or after the end of the range", async () => {
    const of = await registerTestEndpoint();
    const [inside, outside] = [
      await createDelivery(of, NOON, FAILED),
      await createDelivery(of, NOON - HOUR_MS, FAILED, REQUESTED, FAILED),
    ];
    expect(await recover(of, { until: NOON + HOUR_MS })).to.include({ found: 1, requested: 1 });
    expect([await typesOf(inside), (await typesOf(outside)).length]).to.deep.equal([[FAILED, REQUESTED], 3]);
  });

  it("two concurrent recoveries together request only one replay of each delivery", async () => {
    const of = await registerTestEndpoint();
    const ids = await Promise.all(Array.from({ length: 30 }, () => createDelivery(of, NOON, FAILED)));
    const runs = await Promise.all([recover(of), recover(of)]);
    const requested = runs.reduce((sum, run) => sum + run.requested, 0);
    expect(requested).to.equal(30);
    for (const id of ids) expect(await typesOf(id)).to.deep.equal([FAILED, REQUESTED]);
  });

  it("if an outage of the event log stops a recovery, a second recovery replays the remaining deliveries", async () => {
    const of = await registerTestEndpoint();
    const ids = await Promise.all(Array.from({ length: 20 }, () => createDelivery(of, NOON, FAILED)));
    let appends = 0;
    const failing: EventLog = {
      ...log,
      append: (...appended) => {
        appends += 1;
        if (appends > 5) throw new LogUnavailableError("gone");
        return log.append(...appended);
      },
    };
    const error = await recover(of, {}, failing).catch((thrown: unknown) => thrown);
    expect(error).to.be.instanceOf(LogUnavailableError);
    expect(await recover(of)).to.include({ found: 15, requested: 15 });
    for (const id of ids) expect(await typesOf(id)).to.deep.equal([FAILED, REQUESTED]);
  });

  it("a recovery of too many deliveries is refused, but recoveries of shorter time ranges succeed", async () => {
    const of = await registerTestEndpoint();
    for (let count = 0; count < 5; count += 1) await createDelivery(of, NOON + count * HOUR_MS, FAILED);
    const error = await recover(of, { maxDeliveries: 3 }).catch((thrown: unknown) => thrown);
    expect(error).to.have.property("code", "too_many_deliveries");
    expect(await recover(of, { maxDeliveries: 3, until: NOON + 3 * HOUR_MS })).to.include({
      found: 3,
      requested: 3,
    });
    const rest = { maxDeliveries: 3, since: NOON + 3 * HOUR_MS };
    expect(await recover(of, rest)).to.include({ found: 2, requested: 2 });
  });

  describe("from the command line", () => {
    const words = ({ endpointId }: EndpointReference) => [
      ...["webhooks", "recover", "--endpoint", endpointId, "--since", "2026-05-04T14:00:00+02:00"],
    ];

    it("`webhooks recover` prints the progress and the number of deliveries", async () => {
      const of = await registerTestEndpoint();
      for (let count = 0; count < 4; count += 1) await createDelivery(of, NOON, FAILED);
      const dry = await runClinic([...words(of), "--dry-run"], { env });
      const line = "webhooks recover: 4 deliveries failed or were skipped; none was replayed (dry run)";
      expect(dry).to.deep.equal({ code: 0, out: [line], err: [] });
      const ran = await runClinic(words(of), { env });
      expect([ran.code, ran.out]).to.deep.equal([0, ["webhooks recover: 4 of 4 deliveries will be replayed"]]);
      expect(ran.err.at(-1)).to.equal("webhooks recover: 4 of 4 deliveries");
      const again = await runClinic([...words(of), "--json"], { env });
      expect(JSON.parse(again.out.join())).to.deep.equal({
        ...{ command: "webhooks recover", id: of.endpointId, dryRun: false },
        ...{ found: 0, requested: 0, left: 0 },
      });
    });

    it("`webhooks recover` refuses unknown and disabled endpoints, but accepts a disabled endpoint for a dry run", async () => {
      const of = await registerTestEndpoint();
      await createDelivery(of, NOON, SKIPPED);
      await disableEndpoint(log, of, operatorContext());
      const { code, err } = await runClinic(words(of), { env });
      expect(code).to.equal(3);
      expect(err.join()).to.contain("(webhook_endpoint_disabled)");
      expect((await runClinic([...words(of), "--dry-run"], { env })).out.join()).to.contain("1 deliveries");
      const unknown = await runClinic(words({ ...of, endpointId: randomUUID() }), { env });
      expect(unknown.err.join()).to.contain("(webhook_endpoint_not_found)");
    });

    it("`webhooks recover` prints which options are missing or invalid", async () => {
      const { code, err } = await runClinic(["webhooks", "recover", "--since", "yesterday"], { env });
      const since = "--since must be an RFC 3339 date-time with an offset";
      expect([code, err]).to.deep.equal([2, [`clinic: --endpoint is missing; ${since}`]]);
    });
  });
});
