import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import { toMetadata } from "../../../command/handling/handle.ts";
import { startQueryApi } from "../../../query-api/start.ts";
import { requestDefaults } from "../../../shared/domain/events/appointment.ts";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { EMPTY_STREAM, type EventLog } from "../../../shared/eventstore/log.ts";
import type { RunningService } from "../../../shared/runtime/run-service.ts";
import { eventually } from "../../support/eventually.ts";
import { type GrpcProxy, startGrpcProxy } from "../../support/grpc-proxy.ts";
import {
  createPartnerWorld,
  createTestOperatorContext,
  type PartnerWorld,
  sendRequest,
  TOKEN_ISSUER,
} from "../../support/partner.ts";
import { type PartnerApi, startPartnerApi } from "../../support/partner-api.ts";
import { createPlainLog } from "../../support/plain-log.ts";
import { queryEnvironment } from "../../support/query-environment.ts";

/** Three pages forward, and 13 backward. */
const EVENT_COUNT = 1_300;

async function appendAll(log: EventLog, stream: string, events: CatalogEvent[], clinicId: string | null = null) {
  const context = { ...createTestOperatorContext(), clinicId, environment: "production" as const };
  const newEvents = events.map((event) => ({ id: randomUUID(), event, metadata: toMetadata(context) }));
  for (let start = 0; start < newEvents.length; start += 100)
    await log.append(stream, EMPTY_STREAM + BigInt(start), newEvents.slice(start, start + 100));
}

/** Lists events that partners do not receive, so that a page of the feed contains the last event of the stream. */
function listReleases(appointmentId: string): CatalogEvent[] {
  const data = { appointmentId, assignmentId: randomUUID() };
  return Array.from({ length: EVENT_COUNT }, () => ({ type: "ResourceReleased", data }));
}

function createEvent(): { promise: Promise<void>; happen(): void } {
  let happen = () => {};
  const promise = new Promise<void>((resolve) => {
    happen = resolve;
  });
  return { promise, happen: () => happen() };
}

describe("a read of a long stream that nobody waits for", () => {
  let api: PartnerApi;
  let client: EventStoreDBClient;
  let log: EventLog;
  let proxy: GrpcProxy;
  let queryService: RunningService;

  before(async () => {
    api = await startPartnerApi();
    client = connectEventStore(api.eventstoreUrl, "test");
    log = createPlainLog(client);
    proxy = await startGrpcProxy(api.eventstoreUrl.replace(/^esdb:/, "http:"));
    queryService = await startQueryApi({
      ...queryEnvironment,
      EVENTSTORE_URL: proxy.url.replace(/^http:/, "esdb:"),
      DATABASE_URL: api.database.urls.query,
      TOKEN_ISSUER,
      TOKEN_JWKS_URL: `${api.command.url}/.well-known/jwks.json`,
    });
  });
  after(async () => {
    await queryService.stop();
    await proxy.close();
    await client.dispose();
    await api.stop();
  });

  const userId = randomUUID();
  const clinicId = randomUUID();
  const selections = Array.from(
    { length: EVENT_COUNT },
    () => ({ type: "ClinicSelected", data: { userId, clinicId, branchId: null } }) as const,
  );
  const streams = { forward: listReleases(userId), backward: selections };
  for (const [direction, events] of Object.entries(streams))
    it(`a read ${direction} requests no further page after its signal has aborted`, async () => {
      const stream = `${direction === "forward" ? "appointment" : "portalUser"}-${userId}`;
      await appendAll(log, stream, events, clinicId);
      const controller = new AbortController();
      let pageCount = 0;
      const readStream = client.readStream.bind(client);
      const countingClient = Object.assign(Object.create(client) as EventStoreDBClient, {
        readStream: (...args: Parameters<typeof readStream>) => {
          pageCount += 1;
          if (pageCount === 2) controller.abort("nobody waits");
          return readStream(...args);
        },
      });
      const error = await createPlainLog(countingClient)
        .read(stream, undefined, controller.signal)
        .catch((error: unknown) => error);
      expect(error).to.equal("nobody waits");
      expect(pageCount).to.equal(2);
    });

  const list = ({ headers }: PartnerWorld, url = queryService.url, signal: AbortSignal | null = null) =>
    fetch(`${url}/production/v1/events`, { headers, signal });

  /** Creates a partner whose feed has an appointment with a long stream. The proxy holds the second page of its reads. */
  async function holdSecondPage() {
    const world = await createPartnerWorld(api.command);
    const { clinicId, branchId } = world;
    const appointmentId = randomUUID();
    const details = { ...requestDefaults, appointmentId, clinicId, branchId, scheduledAt: "2099-01-01T08:00:00.000Z" };
    const stream = `appointment-${appointmentId}`;
    const requested: CatalogEvent = { type: "AppointmentRequested", data: details };
    const confirmed: CatalogEvent = { type: "AppointmentConfirmed", data: { appointmentId } };
    await appendAll(log, stream, [requested, ...listReleases(appointmentId), confirmed], clinicId);
    const position = String((await log.readLast(stream))?.position);
    await eventually("the read models", async () => {
      const headers = { ...world.headers, "X-SERVICE-Log-Position": position };
      return (await sendRequest("GET", `${api.queryUrl}/production/v1/clinic/context`, headers)).status === 200;
    });
    let pageCount = 0;
    const [held, released, ended] = [createEvent(), createEvent(), createEvent()];
    proxy.onStep = (step, _, request) => {
      if (!request.includes(stream)) return undefined;
      if (step === "answered") pageCount += 1;
      if (step === "ending" && pageCount === 2) ended.happen();
      if (step !== "answered" || pageCount !== 2) return undefined;
      held.happen();
      return released.promise;
    };
    /** Releases the page, and waits for a later response. Before it, a further page would be requested. */
    const releaseAndCount = async () => {
      released.happen();
      if (pageCount === 2) await ended.promise;
      await list(await createPartnerWorld(api.command));
      return pageCount;
    };
    return { world, held, releaseAndCount };
  }

  it("a page of the feed requests no further page of a stream after its deadline", async () => {
    const { world, releaseAndCount } = await holdSecondPage();
    const response = await list(world);
    const { error } = (await response.json()) as { error: string };
    expect([response.status, error]).to.deep.equal([503, "event_log_unavailable"]);
    expect(await releaseAndCount()).to.be.at.most(2);
  });

  it("a page of the feed requests no further page of a stream after its caller has gone", async () => {
    const { world, held, releaseAndCount } = await holdSecondPage();
    const caller = new AbortController();
    const response = list(world, queryService.url, caller.signal).catch((error: Error) => error.name);
    await held.promise;
    caller.abort();
    expect(await response).to.equal("AbortError");
    await list(world, api.queryUrl); // so that the service has noticed the end of the connection
    expect(await releaseAndCount()).to.equal(2);
  });
});
