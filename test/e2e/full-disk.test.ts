/** Tests a whole stack on a real file system that runs out of space. */
import { randomUUID } from "node:crypto";
import path from "node:path";
import { expect } from "chai";
import pg from "pg";
import { Webhook } from "standardwebhooks";
import { type Receiver, startReceiver } from "../../deploy/local/demo/receiver.ts";
import type { Stack } from "../../deploy/local/stack/stack.ts";
import { eventually } from "../support/eventually.ts";
import { mountSmallDisk, type SmallDisk } from "../support/small-disk.ts";
import { startTestStack } from "../support/stack.ts";
import { createWorld, type World } from "./world.ts";

/** If true, the tests are skipped, because external servers do not use the small disk. */
const hasExternalServers = ["EVENTSTORE_URL", "DATABASE_URL", "NATS_URL"].some((name) => process.env[name]);

/** Size of the file system in MiB. A new stack occupies about 100 MiB. */
const DISK_MIB = 256;

/** Time limit for each recovery, long enough for a restart delay of 15 seconds on a busy machine. Milliseconds. */
const RECOVERY_TIMEOUT_MS = 120_000;

/** Number of refused create requests after which the test frees space. */
const REFUSAL_COUNT = 20;

(hasExternalServers ? describe.skip : describe)("a stack on a full disk", function () {
  this.timeout(300_000);
  let disk: SmallDisk;
  let stack: Stack;
  let world: World;
  let receiver: Receiver;
  const lines: string[] = [];
  /** Ids of all appointments whose create request returned 201. */
  const acknowledgedIds = new Set<string>();
  /** Ids of all appointments whose webhook has arrived. */
  const receivedIds = new Set<string>();
  let receiveLoop: Promise<void>;
  let isOver = false;

  before(async function () {
    disk = mountSmallDisk(this, DISK_MIB);
    stack = await startTestStack({
      root: path.join(disk.folder, "stack"),
      shouldRestart: true,
      log: (line) => lines.push(line),
      serviceEnv: { projection: { WEBHOOK_RETRY_SCHEDULE: "1,1,1,1,1,1,1,1" } },
    });
    world = await createWorld(stack);
    receiver = await startReceiver();
    const endpoint = await eventually(
      "an endpoint can be registered",
      async () => {
        const body = { url: receiver.url, events: ["appointment.created"] };
        const response = await world.requestPartner("POST", "/webhook-endpoints", { body });
        return response.status === 201 && response.body;
      },
      RECOVERY_TIMEOUT_MS,
    );
    receiveLoop = receiveWebhooks(endpoint.secret);
  });

  after(async () => {
    isOver = true;
    await receiveLoop;
    await receiver?.close();
    await stack?.stop();
    disk?.remove();
  });

  async function receiveWebhooks(secret: string): Promise<void> {
    while (!isOver) {
      const webhook = await receiver.waitForWebhook(500).catch(() => undefined);
      if (!webhook) continue;
      const body = new Webhook(secret).verify(webhook.body, webhook.headers) as {
        data: { appointment: { id: string } };
      };
      receivedIds.add(body.data.appointment.id);
    }
  }

  async function createAppointment(key = `full-${randomUUID()}`): Promise<number> {
    const { status, body } = await world.createAppointment(key);
    if (status === 201) acknowledgedIds.add(body.appointment.id);
    return status;
  }

  /** Makes Postgres create a new write-ahead log file. Without free space, Postgres stops. */
  async function growWriteAheadLog(): Promise<void> {
    const client = new pg.Client({
      connectionString: stack.servers.adminDatabaseUrl,
      connectionTimeoutMillis: 5_000,
      query_timeout: 5_000,
    });
    client.on("error", () => undefined);
    try {
      await client.connect();
      await client.query("SELECT pg_logical_emit_message(true, 'sample', ''), pg_switch_wal()");
    } catch {
      // The failure is expected.
    } finally {
      await client.end().catch(() => undefined);
    }
  }

  it("requests return 503 while the disk is full, and after space is freed the stack recovers without losing acknowledged data", async () => {
    for (let count = 0; count < 10; count += 1) expect(await createAppointment()).to.equal(201);
    const refusedKeys: string[] = [];
    for (let count = 0; refusedKeys.length < REFUSAL_COUNT; count += 1) {
      disk.fill();
      if (count % 5 === 0) await growWriteAheadLog();
      const key = `full-${randomUUID()}`;
      const status = await createAppointment(key);
      expect(status, "a create").to.be.oneOf([201, 503]);
      if (status === 503) refusedKeys.push(key);
      expect((await world.requestPortal("/appointments?limit=250")).status, "a read").to.be.oneOf([200, 503]);
    }
    disk.free();
    for (const key of refusedKeys) {
      await eventually(
        "a create succeeds again",
        async () => (await createAppointment(key)) === 201,
        RECOVERY_TIMEOUT_MS,
      );
    }
    await eventually(
      "every acknowledged appointment is listed",
      async () => {
        const { status, body } = await world.requestPortal("/appointments?limit=250");
        const listedIds = new Set(status === 200 ? body.appointments.map(({ id }: { id: string }) => id) : []);
        return [...acknowledgedIds].every((id) => listedIds.has(id));
      },
      RECOVERY_TIMEOUT_MS,
    );
    await eventually(
      "every webhook arrived",
      () => [...acknowledgedIds].every((id) => receivedIds.has(id)),
      RECOVERY_TIMEOUT_MS,
    );
    for (const component of Object.values(stack.components)) {
      await eventually(`${component.name} runs`, () => component.pid !== undefined, RECOVERY_TIMEOUT_MS);
      await component.waitUntilReady();
    }
  });
});
