import { randomUUID } from "node:crypto";
import { expect } from "chai";
import {
  findEndpointFailures,
  findExpiringSecrets,
  type RecordOptions,
} from "../../../../projection/webhooks/record/record-events.ts";
import { EventSchemaError } from "../../../../shared/domain/events/stored-event.ts";
import { type EventLog, LogUnavailableError } from "../../../../shared/eventstore/log.ts";
import { READ_MODEL_SCHEMA } from "../../../../shared/postgres/read-model-schema.ts";
import type { Logger } from "../../../../shared/runtime/logger.ts";
import { eventually } from "../../../support/eventually.ts";
import { insertFailingEndpoint } from "../../../support/failing-endpoint.ts";
import { type Receiver, startReceiver } from "../../../support/receiver.ts";
import { useResource } from "../../../support/resources.ts";
import { createWorld, type Endpoint } from "../world.ts";

describe("recording events about endpoints", () => {
  const world = useResource(createWorld);
  let receiver: Receiver;
  let endpoint: Endpoint;
  let otherEndpoint: Endpoint;

  before(async () => {
    world.start.projectors();
    receiver = await startReceiver();
  });
  beforeEach(async () => {
    await world.pool.query("TRUNCATE webhooks.failing_endpoint");
    endpoint = await world.registerEndpoint(receiver.url);
    otherEndpoint = await world.registerEndpoint(receiver.url);
  });

  const record = async (options: Partial<RecordOptions> = {}) =>
    world.recordEvents(await findEndpointFailures(world.pool), options);
  const disable = ({ endpointId }: Pick<Endpoint, "endpointId">) =>
    insertFailingEndpoint(world.pool, endpointId, { isGone: true });
  const listTypes = async ({ endpointId }: Endpoint) =>
    (await world.listEventTypes(`webhookEndpoint-${endpointId}`)).slice(1);
  const endPostponement = () => world.pool.query("UPDATE webhooks.failing_endpoint SET next_try_at = now()");
  const countRows = async () => (await world.pool.query("SELECT FROM webhooks.failing_endpoint")).rowCount;

  for (const isGone of [true, false])
    it(`${isGone ? "a disabling" : "a report"} is recorded once, also by several processes, and if one is killed before it notes that`, async () => {
      await insertFailingEndpoint(world.pool, endpoint.endpointId, { minutes: 5, isGone });
      const unrecordedEvents = await findEndpointFailures(world.pool);
      await Promise.all([1, 2, 3].map(() => world.recordEvents(unrecordedEvents)));
      await world.recordEvents(unrecordedEvents);
      const type = isGone ? "WebhookEndpointDisabled" : "WebhookEndpointFailureReported";
      expect(await listTypes(endpoint)).to.deep.equal([type]);
      expect(await findEndpointFailures(world.pool)).to.deep.equal([]);
      expect(await countRows()).to.equal(isGone ? 0 : 1);
    });

  it("an event waits while its stream cannot be read or extended, and the events of other streams do not", async () => {
    const errors = [new LogUnavailableError("down"), new EventSchemaError("unreadable")];
    const faultyIds = [endpoint.endpointId, ...Array.from({ length: 250 }, () => randomUUID())];
    const errorsByStream = new Map(faultyIds.map((id, index) => [`webhookEndpoint-${id}`, errors[index % 2]]));
    const log: EventLog = {
      ...world.log,
      read(stream, ...rest) {
        const error = errorsByStream.get(stream);
        return error ? Promise.reject(error) : world.log.read(stream, ...rest);
      },
    };
    for (const endpointId of faultyIds) await disable({ endpointId });
    await disable(otherEndpoint);
    await eventually("no event to record now", async () => (await record({ log })) === 0);
    expect(await listTypes(otherEndpoint)).to.deep.equal(["WebhookEndpointDisabled"]);
    expect(await countRows()).to.equal(faultyIds.length);
    await endPostponement();
    await eventually("no event to record", async () => (await record()) === 0);
    expect(await listTypes(endpoint)).to.deep.equal(["WebhookEndpointDisabled"]);
  });

  it("a row that somebody has locked does not delay other events", async () => {
    await Promise.all([disable(endpoint), disable(otherEndpoint)]);
    const locker = await world.pool.connect();
    try {
      await locker.query("SET idle_in_transaction_session_timeout = 0; BEGIN");
      await locker.query("SELECT FROM webhooks.failing_endpoint WHERE endpoint_id = $1 FOR UPDATE", [
        endpoint.endpointId,
      ]);
      expect(await record()).to.equal(1);
      expect(await listTypes(otherEndpoint)).to.deep.equal(["WebhookEndpointDisabled"]);
    } finally {
      locker.release(true);
    }
    await eventually("the other event", async () => (await record()) === 1);
    expect(await listTypes(endpoint)).to.deep.equal(["WebhookEndpointDisabled"]);
  });

  it("an event is discarded if its stream was deleted", async () => {
    await disable(endpoint);
    await world.client.tombstoneStream(`webhookEndpoint-${endpoint.endpointId}`);
    const errors: unknown[] = [];
    await record({ logger: { error: (fields: unknown) => errors.push(fields) } as unknown as Logger });
    expect(errors).to.deep.equal([{ stream: `webhookEndpoint-${endpoint.endpointId}` }]);
    expect(await countRows()).to.equal(0);
  });

  it("failures before an endpoint was enabled do not disable it", async () => {
    await disable(endpoint);
    await world.changeEndpoint(endpoint, "WebhookEndpointDisabled", { reason: "partner" });
    await world.changeEndpoint(endpoint, "WebhookEndpointEnabled");
    const types = await listTypes(endpoint);
    await record();
    expect(await listTypes(endpoint)).to.deep.equal(types);
    expect(await countRows()).to.equal(0);
  });

  it("an endpoint that its failures have disabled gets no attempts while the log is unavailable", async () => {
    receiver.requests.splice(0);
    receiver.queueReactions({ status: 410 });
    const read: typeof world.log.read = (stream, ...rest) =>
      stream.startsWith("webhookEndpoint-")
        ? Promise.reject(new LogUnavailableError("down"))
        : world.log.read(stream, ...rest);
    const webhooks = world.start.webhooks({ log: { ...world.log, read } });
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    await world.awaitStatus(eventId, endpoint, "failed");
    const { eventId: nextId } = await world.requestAppointment(endpoint.clinicId);
    const { eventId: otherId } = await world.requestAppointment(otherEndpoint.clinicId);
    await world.awaitStatus(otherId, otherEndpoint, "delivered");
    expect(await world.readDelivery(nextId, endpoint)).to.deep.include({ status: "pending", attempts: [] });
    await world.stopRoles(webhooks);
    expect(receiver.requests).to.have.length(2);
    await endPostponement();
    world.start.webhooks();
    await world.awaitStatus(nextId, endpoint, "skipped");
    expect(await listTypes(endpoint)).to.deep.equal(["WebhookEndpointDisabled"]);
  });

  it("if more than 1,000 secrets expire, those that expire first are reported first", async () => {
    await world.awaitRows("webhook_secret", "endpoint_id = $1", [endpoint.endpointId]);
    const { rows } = await world.pool.query<{ id: string }>(
      `INSERT INTO ${READ_MODEL_SCHEMA}.webhook_secret
       SELECT (jsonb_populate_record(s, jsonb_build_object('endpoint_id', gen_random_uuid(), 'former_secrets', jsonb_build_array(
                jsonb_build_object('isReported', false, 'expiresAt', rfc3339(now() + interval '5 hours' - n * interval '1 second')))))).*
         FROM ${READ_MODEL_SCHEMA}.webhook_secret s, generate_series(1, 1001) n WHERE s.endpoint_id = $1
       RETURNING endpoint_id AS id`,
      [endpoint.endpointId],
    );
    const found = await findExpiringSecrets(world.pool, Date.now());
    expect(found.map(({ stream }) => stream)).to.deep.equal(
      rows
        .reverse()
        .slice(0, 1_000)
        .map(({ id }) => `webhookEndpoint-${id}`),
    );
  });
});
