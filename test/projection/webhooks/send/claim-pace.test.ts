import { expect } from "chai";
import type pg from "pg";
import type { Lane } from "../../../../projection/webhooks/schedule/due.ts";
import { claimDueDeliveries } from "../../../../projection/webhooks/send/claim.ts";
import { createWorld, type Endpoint, LEASE, registerSender, type World } from "../world.ts";

describe("claims of deliveries to endpoints with a rate limit", () => {
  let world: World;
  let limitedEndpoint: Endpoint;
  let otherEndpoint: Endpoint;
  let allLimitedEndpoints: Endpoint[];

  before(async () => {
    world = await createWorld();
    await registerSender(world.pool);
    const projectors = world.start.projectors();
    limitedEndpoint = await world.registerEndpoint("http://127.0.0.1/");
    otherEndpoint = await world.registerEndpoint("http://127.0.0.1/", { siblingEndpoint: limitedEndpoint });
    allLimitedEndpoints = [limitedEndpoint];
    for (let count = 0; count < 4; count += 1) {
      allLimitedEndpoints.push(await world.registerEndpoint("http://127.0.0.1/", { siblingEndpoint: limitedEndpoint }));
    }
    for (const endpoint of allLimitedEndpoints)
      await world.changeEndpoint(endpoint, "WebhookEndpointChanged", { rateLimitPerSecond: 1 });
    await world.awaitRows("webhook_endpoint", "rate_limit_per_second = 1", [], allLimitedEndpoints.length);
    await world.stopRoles(projectors);
    for (const endpoint of [...allLimitedEndpoints, otherEndpoint]) await insertDeliveries(endpoint);
  });
  after(() => world.close());
  beforeEach(() => world.pool.query("TRUNCATE webhooks.endpoint_pace"));

  /** Inserts ten due deliveries of an endpoint in each lane. */
  const insertDeliveries = ({ endpointId, applicationId, clinicId }: Endpoint) =>
    world.pool.query(
      `WITH added AS (
         INSERT INTO webhooks.delivery (delivery_id, endpoint_id, clinic_id, application_id, environment, event_id,
           event_type, event_stream, event_revision, status, cause_id, correlation_id, next_attempt_at, created_at,
           updated_at)
         SELECT gen_random_uuid(), $1, $2, $3, 'production', $2, 'appointment.created', 'appointment-1', n, 'pending',
                $2, $2, now(), now(), now()
           FROM generate_series(1, 20) n
         RETURNING *)
       INSERT INTO webhooks.pending_delivery (delivery_id, endpoint_id, body, next_attempt_at, round_attempt_count,
         attempt_count)
       SELECT delivery_id, endpoint_id, '{}', next_attempt_at, event_revision % 2, event_revision % 2 FROM added`,
      [endpointId, clinicId, applicationId],
    );

  /**
   * Claims up to four deliveries in each lane.
   *
   * @returns the ids of the endpoints of the claimed deliveries, and the state of the endpoints
   */
  async function claim(
    endpoints: readonly Endpoint[],
    lanes: readonly Lane[] = ["first"],
    { client }: { client?: pg.PoolClient } = {},
  ) {
    const grants = lanes.flatMap((lane) =>
      endpoints.map(({ endpointId, applicationId }) => ({
        lane,
        environment: "production" as const,
        applicationId,
        endpointId,
        slotCount: 4,
        occupiedSlots: 0,
      })),
    );
    const pool = (client ?? world.pool) as pg.Pool;
    const claims = await claimDueDeliveries(pool, grants, [], LEASE, Date.now());
    return { ids: claims.deliveries.map(({ endpointId }) => endpointId), endpoints: claims.endpoints };
  }

  const movePace = (interval: string) =>
    world.pool.query("UPDATE webhooks.endpoint_pace SET next_start_at = next_start_at + $1::interval", [interval]);

  it("a claim takes no more deliveries than the rate limit permits, and reports the pause until the next", async () => {
    const firstClaim = await claim([limitedEndpoint]);
    expect(firstClaim.ids).to.have.length(1);
    expect(firstClaim.endpoints[0]?.pauseMs).to.be.closeTo(900, 1);
    // The rest of the test does not depend on the speed of the machine.
    await movePace("1 hour");
    const secondClaim = await claim([limitedEndpoint]);
    expect(secondClaim.ids).to.have.length(0);
    expect(secondClaim.endpoints[0]).to.include({ hasMore: true });
    expect(secondClaim.endpoints[0]?.pauseMs).to.be.above(3_000_000);
    await movePace("-2 hours");
    expect((await claim([limitedEndpoint])).ids).to.have.length(1);
  });

  it("first attempts and retries of an endpoint share its rate limit", async () => {
    expect((await claim([limitedEndpoint], ["retry", "first"])).ids).to.have.length(1);
  });

  it("an endpoint without a rate limit has no pause", async () => {
    const { ids, endpoints } = await claim([otherEndpoint], ["first", "retry"]);
    expect(ids).to.have.length(8);
    expect(endpoints.map(({ pauseMs }) => pauseMs)).to.deep.equal([0, 0]);
  });

  it("new paces are inserted in the order of the endpoints' ids, so that concurrent claims cannot deadlock", async () => {
    const { ids } = await claim(allLimitedEndpoints);
    expect(ids).to.have.members(allLimitedEndpoints.map(({ endpointId }) => endpointId));
    // The table was empty, so the physical order is the order in which the rows were inserted and locked.
    const { rows } = await world.pool.query("SELECT endpoint_id AS id FROM webhooks.endpoint_pace ORDER BY ctid");
    expect(rows.map(({ id }) => id)).to.deep.equal([...ids].sort());
  });

  it("while another process claims, a claim takes nothing from the endpoint, and does not wait for its pace", async () => {
    await claim([limitedEndpoint]);
    await movePace("-1 hour");
    const client = await world.pool.connect();
    await client.query("BEGIN");
    expect((await claim([limitedEndpoint], ["first"], { client })).ids).to.have.length(1);
    const { ids } = await claim([limitedEndpoint, otherEndpoint], ["retry"]);
    expect(ids).to.deep.equal(Array(4).fill(otherEndpoint.endpointId));
    await client.query("COMMIT");
    client.release();
  });
});
