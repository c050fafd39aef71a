import { expect } from "chai";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { findFreePort } from "../../deploy/eventstore/log-process.ts";
import { eventually } from "../../support/eventually.ts";
import { createTestDatabase, getTestServers } from "../../support/stack.ts";
import { createWorld } from "./world.ts";

describe("the webhooks role", () => {
  it("if the event log is unavailable when the webhooks role starts, the status of the role shows the error", async () => {
    const database = await createTestDatabase();
    const eventstoreUrl = `esdb://127.0.0.1:${await findFreePort()}?tls=false`;
    const { natsUrl } = await getTestServers();
    const world = await createWorld({ eventstoreUrl, natsUrl, databaseUrl: database.urls.projection });
    await world.pool.query(`UPDATE ${READ_MODEL_SCHEMA}.checkpoint SET position = 5, event_id = gen_random_uuid()`);
    const webhooksRole = world.start.webhooks();
    const { state, detail, lastError } = await eventually("an error", () => {
      const status = webhooksRole.getStatus();
      return status.lastError && status;
    });
    expect([state, detail]).to.deep.equal(["starting", "waits"]);
    expect(lastError?.message).to.match(/unavailable|did not answer/i);
    await world.close();
    await database.drop();
  });
});
