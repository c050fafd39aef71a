import { expect } from "chai";
import type pg from "pg";
import { claimDueDeliveries } from "../../../../projection/webhooks/send/claim.ts";
import { useResource } from "../../../support/resources.ts";
import { createWorld, type Endpoint, LEASE, registerSender } from "../world.ts";

describe("claims of deliveries to endpoints with a rate limit", () => {
  const world = useResource(createWorld);
  let limitedEndpoint: Endpoint;
  let otherEndpoint: Endpoint;
  let allLimitedEndpoints: Endpoint[];

  before(async () => {
    await registerSender(world.pool);
    const projectors = world.start.projectors();
    limitedEndpoint = await world.registerEndpoint("http://127.0.0.1/");
    otherEndpoint = await world.registerEndpoint("http://127.0.0.1/", { siblingEndpoint: limitedEndpoint });
    allLimitedEndpoints = [limitedEndpoint];
    for (let count = 0; count < 4; count += 1)
      allLimitedEndpoints.push(await world.registerEndpoint("http://127.0.0.1/", { siblingEndpoint: limitedEndpoint }));
    for (const endpoint of allLimitedEndpoints)
      await world.changeEndpoint(endpoint, "WebhookEndpointChanged", { rateLimitPerSecond: 1 });
    await world.awaitRows("webhook_endpoint", "rate_limit_per_second = 1", [], allLimitedEndpoints.length);
    await world.stopRoles(projectors);
    for (const endpoint of [...allLimitedEndpoints, otherEndpoint]) await insertDeliveries(endpoint);
  });
  beforeEach(() => world.pool.query("TRUNCATE webhooks.endpoint_rate_limit"));

  /** Inserts 20 due deliveries of an endpoint, half of which have failed before. */
  const insertDeliveries = ({ endpointId, applicationId, clinicId }: Endpoint) =>
    world.pool.query(
      `WITH added AS (
         INSERT INTO webhooks.delivery (delivery_id, endpoint_id, clinic_id, application_id, environment, event_id,
           event_type, event_position, status, cause_id, correlation_id, next_attempt_at, created_at,
           updated_at)
         SELECT gen_random_uuid(), $1, $2, $3, 'production', $2, 'appointment.created', n, 'pending',
                $2, $2, now(), now(), now()
           FROM generate_series(1, 20) n
         RETURNING *)
       INSERT INTO webhooks.pending_delivery (delivery_id, endpoint_id, event_id, event_position, next_attempt_at, failed_attempt_count,
         attempt_count)
       SELECT delivery_id, endpoint_id, event_id, event_position, next_attempt_at, event_position % 2, event_position % 2 FROM added`,
      [endpointId, clinicId, applicationId],
    );

  /**
   * Claims up to four deliveries of each endpoint.
   *
   * @returns the endpoint id of each claimed delivery, and the state of the endpoints
   */
  async function claim(endpoints: readonly Endpoint[], client?: pg.PoolClient) {
    const grants = endpoints.map(({ endpointId, applicationId }) => ({
      environment: "production" as const,
      applicationId,
      endpointId,
      count: 4,
      inProgress: 0,
    }));
    const pool = (client ?? world.pool) as pg.Pool;
    const claims = await claimDueDeliveries(pool, grants, [], LEASE, Date.now());
    return { ids: claims.deliveries.map(({ endpointId }) => endpointId), endpoints: claims.endpoints };
  }

  const moveNextStart = (interval: string) =>
    world.pool.query("UPDATE webhooks.endpoint_rate_limit SET next_start_at = next_start_at + $1::interval", [
      interval,
    ]);

  it("a claim takes no more deliveries than the rate limit permits, and reports the pause until the next", async () => {
    const firstClaim = await claim([limitedEndpoint]);
    expect(firstClaim.ids).to.have.length(1);
    expect(firstClaim.endpoints[0]?.pauseMs).to.be.closeTo(900, 1);
    // The rest of the test does not depend on the speed of the machine.
    await moveNextStart("1 hour");
    const secondClaim = await claim([limitedEndpoint]);
    expect(secondClaim.ids).to.have.length(0);
    expect(secondClaim.endpoints[0]).to.include({ hasMore: true });
    expect(secondClaim.endpoints[0]?.pauseMs).to.be.above(3_000_000);
    await moveNextStart("-2 hours");
    expect((await claim([limitedEndpoint])).ids).to.have.length(1);
  });

  it("an endpoint without a rate limit has no pause", async () => {
    const { ids, endpoints } = await claim([otherEndpoint]);
    expect(ids).to.have.length(4);
    expect(endpoints.map(({ pauseMs }) => pauseMs)).to.deep.equal([0]);
  });

  it("new rate limits are inserted in the order of the endpoints' ids, so that concurrent claims cannot deadlock", async () => {
    const { ids } = await claim(allLimitedEndpoints);
    expect(ids).to.have.members(allLimitedEndpoints.map(({ endpointId }) => endpointId));
    // The table was empty, so the physical order is the order in which the rows were inserted and locked.
    const { rows } = await world.pool.query("SELECT endpoint_id AS id FROM webhooks.endpoint_rate_limit ORDER BY ctid");
    expect(rows.map(({ id }) => id)).to.deep.equal([...ids].sort());
  });

  it("while another process claims, a claim takes nothing from the endpoint, and does not wait for its rate limit", async () => {
    await claim([limitedEndpoint]);
    await moveNextStart("-1 hour");
    const client = await world.pool.connect();
    await client.query("BEGIN");
    expect((await claim([limitedEndpoint], client)).ids).to.have.length(1);
    const { ids } = await claim([limitedEndpoint, otherEndpoint]);
    expect(ids).to.deep.equal(Array(4).fill(otherEndpoint.endpointId));
    await client.query("COMMIT");
    client.release();
  });
});
