import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import streamsGrpc from "@eventstore/db-client/generated/streams_grpc_pb.js";
import { Metadata } from "@grpc/grpc-js";
import { expect } from "chai";
import { pino } from "pino";
import { AggregateCache, type LoadAggregate } from "../../../command/handling/aggregate-cache.ts";
import { openBranch } from "../../../command/operations/clinic-operations.ts";
import { type Clinic, clinicAggregate } from "../../../shared/domain/clinic/clinic.ts";
import { DomainError } from "../../../shared/domain/domain-error.ts";
import { toGrpcClient } from "../../../shared/eventstore/grpc-client.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { connectToLog } from "../../support/connections.ts";
import { eventually } from "../../support/eventually.ts";
import { type FaultProxy, startFaultProxy } from "../../support/fault-proxy.ts";
import { createClinic, createTestOperatorContext } from "../../support/partner.ts";
import { createPlainLog } from "../../support/plain-log.ts";
import { getTestServers } from "../../support/stack.ts";

describe("the aggregate cache", () => {
  let client: EventStoreDBClient;
  let log: EventLog;
  /** Proxy between the cache's subscription and the log. Reads do not use the proxy. */
  let proxy: FaultProxy;
  let subscriber: EventStoreDBClient;
  let cache: AggregateCache;
  let readCount = 0;

  before(async () => {
    const { eventstoreUrl } = await getTestServers();
    client = connectToLog(eventstoreUrl);
    log = createPlainLog(client);
  });
  beforeEach(async () => {
    const { eventstoreUrl } = await getTestServers();
    proxy = await startFaultProxy(eventstoreUrl.replace(/^esdb:/, "http:"));
    subscriber = connectToLog(proxy.url.replace(/^http:/, "esdb:"));
    const countingLog: EventLog = {
      ...log,
      read: (...args) => {
        readCount += 1;
        return log.read(...args);
      },
    };
    cache = new AggregateCache(subscriber, countingLog, pino({ enabled: false }));
  });
  afterEach(async () => {
    proxy.disconnect();
    await cache.close();
  });

  const createBranchCounter = (clinicId: string) => async (load: LoadAggregate) => {
    const { state } = await load(clinicAggregate, clinicId);
    return (state as Clinic).branches.length;
  };

  /** Runs a decision and returns the number of streams that it read from the log. */
  async function countReads(decide: (load: LoadAggregate) => Promise<unknown>): Promise<number> {
    const readCountBefore = readCount;
    await cache.decide(decide);
    return readCount - readCountBefore;
  }

  const waitUntilCached = (clinicId: string) =>
    eventually("the clinic is cached", async () => (await countReads(createBranchCounter(clinicId))) === 0);

  const addBranch = (clinicId: string) =>
    openBranch(log, { clinicId, branchId: randomUUID(), name: "Third", city: null }, createTestOperatorContext());

  it("a cached aggregate is read again after an event was appended to its stream", async () => {
    const { clinicId } = await createClinic(log);
    await waitUntilCached(clinicId);
    expect(await cache.decide(createBranchCounter(clinicId))).to.equal(2);
    await addBranch(clinicId);
    await eventually("the cache knows the new branch", async () => {
      return (await cache.decide(createBranchCounter(clinicId))) === 3;
    });
    await waitUntilCached(clinicId);
  });

  it("an aggregate that does not exist is not cached", async () => {
    const { clinicId } = await createClinic(log);
    await waitUntilCached(clinicId);
    const unknownId = randomUUID();
    const load = async (load: LoadAggregate) => load(clinicAggregate, unknownId);
    expect(await countReads(load)).to.equal(1);
    expect(await countReads(load)).to.equal(1);
  });

  it("if a decision refuses because of an outdated aggregate, it is repeated with the aggregate from the log", async () => {
    const { clinicId } = await createClinic(log);
    await waitUntilCached(clinicId);
    proxy.mute();
    await addBranch(clinicId);
    const decidedBranchCount = await cache.decide(async (load) => {
      const branchCount = await createBranchCounter(clinicId)(load);
      if (branchCount < 3) throw new DomainError("branch_not_found", "the third branch is missing");
      return branchCount;
    });
    expect(decidedBranchCount).to.equal(3);
  });

  it("a refusal reads no aggregate again that is recent enough for it, or was just read", async () => {
    const { clinicId } = await createClinic(log);
    await waitUntilCached(clinicId);
    const countRefusalReads = async (maxRefusalAgeMs: number) => {
      const readCountBefore = readCount;
      const refuse = async (load: LoadAggregate) => {
        await Promise.all([load(clinicAggregate, clinicId), load(clinicAggregate, randomUUID())]);
        throw new DomainError("refused", "always");
      };
      await cache.decide(refuse, maxRefusalAgeMs).catch(() => undefined);
      return readCount - readCountBefore;
    };
    // Each attempt asks for another unknown clinic.
    expect(await countRefusalReads(60_000)).to.equal(1);
    expect(await countRefusalReads(0)).to.equal(3);
  });

  it("if the log does not respond to the cache for a second, aggregates are read from the log", async () => {
    const { clinicId } = await createClinic(log);
    await waitUntilCached(clinicId);
    proxy.mute();
    await addBranch(clinicId);
    await eventually("the cache is not used", async () => (await countReads(createBranchCounter(clinicId))) === 1);
    expect(await cache.decide(createBranchCounter(clinicId))).to.equal(3);
  });

  const replacements: [string, () => void][] = [
    ["the server asks for a new connection", () => proxy.replaceConnections()],
    [
      "the client opens a new connection",
      () => {
        proxy.mute();
        proxy.restore();
        const { execute } = toGrpcClient(subscriber);
        const unavailable = Object.assign(new Error("unavailable"), { code: 14, metadata: new Metadata() });
        const failingCall = () => Promise.reject(unavailable);
        void execute(streamsGrpc.StreamsClient, "failed call", failingCall).catch(() => undefined);
      },
    ],
  ];
  for (const [event, replaceConnection] of replacements)
    it(`no aggregate is outdated for more than a second if ${event} and the old one is dead`, async () => {
      const { clinicId } = await createClinic(log);
      await waitUntilCached(clinicId);
      replaceConnection();
      await addBranch(clinicId);
      const appendedAt = performance.now();
      await eventually("the aggregate with the new branch is cached", async () => {
        const decidedAt = performance.now();
        const readCountBefore = readCount;
        const branchCount = await cache.decide(createBranchCounter(clinicId));
        if (branchCount === 2) expect(decidedAt - appendedAt).to.be.below(1_000);
        return branchCount === 3 && readCount === readCountBefore;
      });
    });

  it("after a broken connection, no aggregate from before is used, and aggregates are cached again", async () => {
    const { clinicId } = await createClinic(log);
    await waitUntilCached(clinicId);
    proxy.disconnect();
    await addBranch(clinicId);
    await eventually("the cache is not used", async () => (await countReads(createBranchCounter(clinicId))) === 1);
    proxy.restore();
    await waitUntilCached(clinicId);
    expect(await cache.decide(createBranchCounter(clinicId))).to.equal(3);
  });
});
