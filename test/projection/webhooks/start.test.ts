import { expect } from "chai";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { eventually } from "../../support/eventually.ts";
import { findFreePort } from "../../support/free-ports.ts";
import { createWorld, type World } from "./world.ts";

describe("the start of the webhooks role", () => {
  let world: World;

  it("if the event log is unavailable when the webhooks role starts, the status of the role shows the error", async () => {
    world = await createWorld({ eventstoreUrl: `esdb://127.0.0.1:${await findFreePort()}?tls=false` });
    await world.pool.query(`UPDATE ${READ_MODEL_SCHEMA}.checkpoint SET position = 5, event_id = gen_random_uuid()`);
    const webhooksRole = world.start.webhooks();
    const { state, detail, lastError } = await eventually("an error", () => {
      const status = webhooksRole.getStatus();
      return status.lastError && status;
    });
    expect([state, detail]).to.deep.equal(["starting", "waits"]);
    expect(lastError?.message).to.match(/unavailable|did not answer/i);
  });

  it("webhooks wait until the projectors have filled the read models", async () => {
    world = await createWorld();
    await world.pool.query(`UPDATE ${READ_MODEL_SCHEMA}.checkpoint SET filled = false`);
    const webhooks = world.start.webhooks();
    await eventually("webhooks wait", () => {
      const { state, detail, lastError } = webhooks.getStatus();
      return state === "starting" && detail === "waits" && lastError?.message === "The read models are not filled yet.";
    });
    world.start.projectors();
    await eventually("webhooks run", () => webhooks.getStatus().state === "running");
  });
});
