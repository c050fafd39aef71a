import { expect } from "chai";
import type pg from "pg";
import { WebhooksSession } from "../../../projection/webhooks/session.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { createTestPool } from "../../support/connections.ts";
import { eventually } from "../../support/eventually.ts";
import { createDatabaseWithReadModels } from "../../support/migrated-database.ts";

const logger = createLogger("test", "silent");

describe("the session of the webhooks role", () => {
  let databaseUrl: string;
  let pool: pg.Pool;
  const stops: (() => Promise<void>)[] = [];
  let goneCount = 0;

  beforeEach(async () => {
    databaseUrl = (await createDatabaseWithReadModels()).urls.projection;
    pool = createTestPool(databaseUrl, { statementTimeoutMs: 5_000 });
    goneCount = 0;
  });
  afterEach(async () => {
    await Promise.all(stops.splice(0).map((stop) => stop()));
  });

  async function openSession(applicationName: string): Promise<WebhooksSession> {
    const onSenderGone = () => {
      goneCount += 1;
    };
    const session = new WebhooksSession(pool, { onSenderGone, onPosition: () => undefined });
    const controller = new AbortController();
    const runPromise = session.run({ databaseUrl, applicationName, logger }, controller.signal);
    stops.push(async () => {
      controller.abort();
      await runPromise;
    });
    await eventually("the sender", () => session.senderId !== undefined);
    return session;
  }
  const listSenders = async () =>
    (await pool.query<{ id: string }>("SELECT sender_id AS id FROM webhooks.sender")).rows.map(({ id }) => id);
  const endConnection = (applicationName: string) =>
    pool.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", [applicationName]);

  it("a sender whose session has ended is deleted, and the session of another process reports it", async () => {
    const first = await openSession("first");
    const firstId = first.senderId;
    const other = await openSession("other");
    expect(await listSenders()).to.have.members([firstId, other.senderId]);
    await stops.shift()?.();
    expect(first.senderId).to.equal(undefined);
    await eventually("the deleted sender", async () => (await listSenders()).length === 1);
    await eventually("the report", () => goneCount === 1);
    expect(await listSenders()).to.deep.equal([other.senderId]);
  });

  it("a sender that is gone is deleted while somebody locks the row of another one", async () => {
    const lockedSession = await openSession("locked");
    const lockedId = lockedSession.senderId;
    await openSession("unlocked");
    const locker = await pool.connect();
    try {
      await locker.query("SET idle_in_transaction_session_timeout = 0; BEGIN");
      await locker.query("SELECT FROM webhooks.sender WHERE sender_id = $1 FOR UPDATE", [lockedId]);
      await Promise.all(stops.splice(0).map((stop) => stop()));
      const other = await openSession("other");
      await eventually("one deleted sender", async () => (await listSenders()).length === 2);
      expect(await listSenders()).to.have.members([lockedId, other.senderId]);
    } finally {
      locker.release(true);
    }
    await eventually("two deleted senders", async () => (await listSenders()).length === 1);
  });

  it("a sender keeps its id if it has a new connection in time", async () => {
    const session = await openSession("short");
    await openSession("other");
    const { senderId } = session;
    await endConnection("short");
    await eventually("the loss", () => session.senderId === undefined);
    await eventually("a new connection", () => session.senderId !== undefined);
    expect(session.senderId).to.equal(senderId);
    expect(await listSenders()).to.include(senderId);
  });

  it("a sender whose lock another connection still holds gets a new id", async () => {
    const session = await openSession("replaced");
    const { senderId } = session;
    const holder = await pool.connect();
    const lockPromise = holder.query("SELECT pg_advisory_lock(hashtextextended('webhook sender ' || $1, 0))", [
      senderId,
    ]);
    await endConnection("replaced");
    await lockPromise;
    await eventually("a new id", () => session.senderId !== undefined && session.senderId !== senderId);
    expect(await listSenders()).to.have.members([senderId, session.senderId]);
    holder.release(true);
    await eventually("the deleted sender", async () => (await listSenders()).length === 1);
  });
});
