import { randomUUID } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { PassThrough } from "node:stream";
import { expect } from "chai";
import { READ_MODELS_CURRENT_SQL, RevocationWatch } from "../../../../projection/webhooks/match/revocations.ts";
import type { CatalogEvent } from "../../../../shared/domain/events/catalog.ts";
import { createEventLog, type EventLog } from "../../../../shared/eventstore/log.ts";
import { connectToLog } from "../../../support/connections.ts";
import { eventually } from "../../../support/eventually.ts";
import { findFreePort } from "../../../support/free-ports.ts";
import { useResource } from "../../../support/resources.ts";
import { createWorld } from "../world.ts";

const MAX_POSITION = 2n ** 62n;

/** No role runs, so the read models stay empty. */
describe("the watch for revocations", () => {
  const world = useResource(createWorld);

  /** Runs a function with a watch that has read all stored events. Then stops the watch. */
  async function whileWatching(
    test: (watch: RevocationWatch) => Promise<void>,
    client = world.client,
    log: Pick<EventLog, "readLast"> = createEventLog(client),
  ): Promise<void> {
    const watch = new RevocationWatch({ ...world, client, log });
    watch.setReadModelPosition(MAX_POSITION);
    expect(watch.isCurrent).to.equal(false);
    const controller = new AbortController();
    const { signal } = controller;
    const runPromise = watch.run({ name: "revocations", logger: world.logger, signal, report: () => undefined });
    try {
      await eventually("the stored events", () => watch.isCurrent);
      await test(watch);
    } finally {
      controller.abort();
      await runPromise;
    }
  }
  const readRevocation = async () =>
    (await world.pool.query<{ position: bigint }>("SELECT position FROM webhooks.revocation")).rows[0]?.position;
  const areReadModelsCurrent = async () =>
    (await world.pool.query(`SELECT ${READ_MODELS_CURRENT_SQL} AS "isCurrent"`)).rows[0].isCurrent;

  it("an event that may revoke access, or is of an unknown type, blocks deliveries until the read models include it", async () => {
    expect(await areReadModelsCurrent()).to.equal(true);
    const endpoint = await world.registerEndpoint("http://127.0.0.1/");
    const readPosition = async (stream: string) => (await world.log.readLast(stream))!.position;
    await whileWatching(async (watch) => {
      const approvedPosition = await readPosition(`installation-${endpoint.installationId}`);
      expect(await readRevocation()).to.equal(approvedPosition);
      await world.changeEndpoint(endpoint, "WebhookEndpointEnabled");
      await world.requestAppointment(endpoint.clinicId);
      const customerId = randomUUID();
      const erased = { customerId, categories: ["contact" as const], cause: "request" as const, reason: "Request 17" };
      const praised = { type: "AnimalConsentPraised", data: {} } as unknown as CatalogEvent;
      for (const [stream, event] of [
        [`webhookEndpoint-${endpoint.endpointId}`, { type: "WebhookEndpointRevoked", data: endpoint }],
        [`animalConsent-${randomUUID()}`, praised],
        [`customer-${customerId}`, { type: "CustomerDataErased", data: erased }],
      ] as [string, CatalogEvent][]) {
        const positionBefore = await readRevocation();
        await world.append(stream, event);
        const position = await eventually("the revocation", async () => {
          const newPosition = await readRevocation();
          return newPosition !== positionBefore && newPosition;
        });
        expect(position > approvedPosition).to.equal(true);
        watch.setReadModelPosition(position - 1n);
        expect(watch.isCurrent).to.equal(false);
        watch.setReadModelPosition(position);
        expect(watch.isCurrent).to.equal(true);
      }
      // The process that read a revocation depends neither on its record nor on reported positions.
      await world.pool.query("DELETE FROM webhooks.revocation");
      watch.setReadModelPosition(undefined);
      expect(watch.isCurrent).to.equal(false);
      await eventually("the record", readRevocation);
    });
    expect(await areReadModelsCurrent()).to.equal(false);
  });

  it("while the log searches for revocations without sending any, the process sends nothing, unless the log becomes unavailable", async () => {
    const subscribeToAll = () => Object.assign(new PassThrough(), { unsubscribe: async () => undefined });
    const silentClient = Object.assign(Object.create(world.client), { subscribeToAll });
    let readCount = 0;
    const log = {
      async readLast() {
        readCount += 1;
        if (readCount === 3) throw new Error("unavailable");
        return undefined;
      },
    };
    await whileWatching(
      async () => {
        expect(readCount).to.equal(3);
      },
      silentClient,
      log,
    );
  });

  it("if a subscription catches up twice, the watch still waits for the other subscription", async () => {
    const controller = new AbortController();
    const { signal } = controller;
    const firstRead = new EventEmitter();
    const states: boolean[] = [];
    async function* readTwice() {
      yield* [{ kind: "caughtUp" }, { kind: "caughtUp" }];
      states.push(watch.isCurrent);
      firstRead.emit("end");
      await once(signal, "abort");
    }
    async function* readLater() {
      await once(firstRead, "end");
      yield { kind: "caughtUp" };
      states.push(watch.isCurrent);
      controller.abort();
    }
    const subscriptions = [readLater(), readTwice()].map((items) =>
      Object.assign(items, { on: () => undefined, destroy: () => undefined, unsubscribe: async () => undefined }),
    );
    const subscribeToAll = () => subscriptions.shift();
    const client = Object.assign(Object.create(world.client), { subscribeToAll });
    const watch = new RevocationWatch({ ...world, client });
    await watch.run({ name: "revocations", logger: world.logger, signal, report: () => undefined });
    expect(states).to.deep.equal([false, true]);
  });

  it("a process that starts while the log is unavailable knows the last revocation", async () => {
    const client = connectToLog(`esdb://127.0.0.1:${await findFreePort()}?tls=false`);
    await whileWatching(async () => {
      expect(await areReadModelsCurrent()).to.equal(false);
    }, client);
    const projectors = world.start.projectors();
    await eventually("the read models", areReadModelsCurrent);
    await world.stopRoles(projectors);
  });
});
