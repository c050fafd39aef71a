import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { eventually } from "../../support/eventually.ts";
import { createWorld, type World } from "./world.ts";

describe("webhooks before the read models are filled", () => {
  let world: World;

  before(async () => {
    world = await createWorld();
  });
  after(() => world.close());

  it("webhooks wait until the projectors have filled the read models", async () => {
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
