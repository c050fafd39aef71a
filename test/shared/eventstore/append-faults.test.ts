import { randomUUID } from "node:crypto";
import { constants } from "node:http2";
import { setTimeout as delay } from "node:timers/promises";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import {
  createEventLog,
  EMPTY_STREAM,
  type EventLog,
  LogUnavailableError,
  REQUEST_TIMEOUT_MS,
  WrongExpectedRevisionError,
} from "../../../shared/eventstore/log.ts";
import { readLogEnd } from "../../../shared/eventstore/read-log.ts";
import { createEventStoreReadinessCheck } from "../../../shared/http/health.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { connectToLog } from "../../support/connections.ts";
import { eventually } from "../../support/eventually.ts";
import { startFaultProxy } from "../../support/fault-proxy.ts";
import {
  CALL_STEPS,
  type CallStep,
  type GrpcProxy,
  type ProxiedCall,
  startGrpcProxy,
} from "../../support/grpc-proxy.ts";
import { type OwnLog, startSeparateLog } from "../../support/own-log.ts";
import { createRevocation } from "../../support/stored-metadata.ts";

const TEMPORARY_FAULTS: Record<string, (call: ProxiedCall) => unknown> = {
  "reset with INTERNAL_ERROR": (call) => call.reset(constants.NGHTTP2_INTERNAL_ERROR),
  "reset with REFUSED_STREAM": (call) => call.reset(constants.NGHTTP2_REFUSED_STREAM),
  "reset with CANCEL": (call) => call.reset(constants.NGHTTP2_CANCEL),
  "reset with ENHANCE_YOUR_CALM": (call) => call.reset(constants.NGHTTP2_ENHANCE_YOUR_CALM),
  "closed connection": (call) => call.cut(),
};
const TEMPORARY_STATUSES = [1, 2, 4, 8, 10, 13, 14];
const PERMANENT_STATUSES = [3, 5, 6, 7, 9, 11, 15, 16];

describe("appends while calls and connections fail", () => {
  let log: OwnLog;
  let proxy: GrpcProxy;
  const clients: EventStoreDBClient[] = [];

  function connect(url: string): EventStoreDBClient {
    const client = connectToLog(url);
    clients.push(client);
    return client;
  }

  /** Reasons of unhandled rejections. Each of them would end a service. */
  const unhandledReasons: unknown[] = [];
  const recordUnhandledReason = (reason: unknown) => void unhandledReasons.push(reason);

  before(async () => {
    process.on("unhandledRejection", recordUnhandledReason);
    log = await startSeparateLog();
  });
  after(async () => {
    process.off("unhandledRejection", recordUnhandledReason);
  });
  beforeEach(async () => {
    proxy = await startGrpcProxy(log.eventstoreUrl);
  });
  afterEach(async () => {
    await Promise.all(clients.splice(0).map((client) => client.dispose()));
    expect(unhandledReasons.splice(0)).to.deep.equal([]);
  });

  /** Makes the next call fail at a step. Reads do not count. Returns a function that counts the calls. */
  function failNextCall(step: CallStep, fail: (call: ProxiedCall) => unknown): () => number {
    let callCount = 0;
    proxy.onStep = (currentStep, call) => {
      if (currentStep !== step || call.path.endsWith("/Read")) return undefined;
      callCount += 1;
      return callCount === 1 ? fail(call) : undefined;
    };
    return () => callCount;
  }

  /** Refuses all appends. Returns a function that counts the refusals. */
  function refuseAppends(status: number, trailers?: Record<string, string>): () => number {
    let callCount = 0;
    proxy.onStep = (step, call) => {
      if (step !== "opened" || call.path.endsWith("/Read")) return;
      callCount += 1;
      call.refuse(status, trailers);
    };
    return () => callCount;
  }

  /** Checks that two successive appends to a stream succeed, and that the stream holds exactly their events. */
  async function expectAppends(eventLog: EventLog, fault: string): Promise<void> {
    const stream = `auditor-${randomUUID()}`;
    const [first, second] = [createRevocation(stream), createRevocation(stream)];
    await eventLog.append(stream, EMPTY_STREAM, [first]);
    await eventLog.append(stream, 0n, [second]);
    expect(
      (await eventLog.read(stream)).map(({ id }) => id),
      fault,
    ).to.deep.equal([first.id, second.id]);
  }

  for (const step of CALL_STEPS)
    it(`an append succeeds once if its call is reset or its connection is closed when the call is ${step}`, async () => {
      for (const [fault, fail] of Object.entries(TEMPORARY_FAULTS)) {
        // The client's first call is the one that fails.
        const eventLog = createEventLog(connect(proxy.url));
        failNextCall(step, fail);
        await expectAppends(eventLog, fault);
      }
    });

  it("an append succeeds if its call ends with the gRPC status of a temporary failure", async () => {
    for (const status of TEMPORARY_STATUSES) {
      const eventLog = createEventLog(connect(proxy.url));
      failNextCall("opened", (call) => call.refuse(status));
      await expectAppends(eventLog, `status ${status}`);
    }
  });

  const SUSPECT_PREFIX = "auditor-5a5bec75";

  /** Starts appends to new streams. The first stream has SUSPECT_PREFIX, so that a fault can select it. */
  function appendWithSuspect(eventLog: EventLog): Promise<Error | undefined>[] {
    return [`${SUSPECT_PREFIX}${randomUUID().slice(8)}`, ...Array.from({ length: 20 }, () => undefined)].map((stream) =>
      getAppendError(eventLog, stream),
    );
  }

  const isSuspect = (step: CallStep, request: Buffer) => step === "sent" && request.includes(SUSPECT_PREFIX);

  it("if an append makes the server end its call, only this append fails, with its own error", async () => {
    for (const status of [...TEMPORARY_STATUSES, ...PERMANENT_STATUSES]) {
      const eventLog = createEventLog(connect(proxy.url));
      await expectAppends(eventLog, "none");
      proxy.onStep = (step, call, request) => isSuspect(step, request) && call.refuse(status);
      const [suspectError, ...errors] = await Promise.all(appendWithSuspect(eventLog));
      if (PERMANENT_STATUSES.includes(status)) expect(suspectError).to.include({ code: status });
      else expect(suspectError).to.be.instanceOf(LogUnavailableError);
      expect(errors, `status ${status}`).to.deep.equal(errors.map(() => undefined));
    }
  });

  it("if an append makes the server stop reading and answering its call, only this append fails, and later appends do not wait", async () => {
    const eventLog = createEventLog(connect(proxy.url));
    await expectAppends(eventLog, "none");
    const frozenCalls = new Set<ProxiedCall>();
    proxy.onStep = (step, call, request) => {
      if (isSuspect(step, request)) frozenCalls.add(call);
      return step === "answered" && frozenCalls.has(call) && delay(60_000, undefined, { ref: false });
    };
    const [suspect, ...others] = appendWithSuspect(eventLog);
    expect(await Promise.all(others)).to.deep.equal(others.map(() => undefined));
    const repeatedAt = performance.now();
    await expectAppends(eventLog, "frozen call");
    expect(performance.now() - repeatedAt).to.be.below(REQUEST_TIMEOUT_MS);
    expect(await suspect).to.be.instanceOf(LogUnavailableError);
  });

  it("if the leader changes, sent and later appends succeed at the new leader", async () => {
    const newLeader = await startGrpcProxy(log.eventstoreUrl);
    const eventLog = createEventLog(connect(proxy.url));
    await expectAppends(eventLog, "none");
    const endpoint = { "leader-endpoint-host": "127.0.0.1", "leader-endpoint-port": new URL(newLeader.url).port };
    proxy.onStep = (step, call) => step === "answered" && call.refuse(5, { exception: "not-leader", ...endpoint });
    const newPaths = new Set<string>();
    newLeader.onStep = (_, call) => newPaths.add(call.path);
    const errors = await Promise.all(appendWithSuspect(eventLog));
    expect(errors).to.deep.equal(errors.map(() => undefined));
    await expectAppends(eventLog, "new leader");
    expect([...newPaths].join()).to.include("/BatchAppend");
  });

  it("appends succeed if the server does not implement BatchAppend", async () => {
    const eventLog = createEventLog(connect(proxy.url));
    proxy.onStep = (step, call) => step === "opened" && call.path.endsWith("/BatchAppend") && call.refuse(12);
    await expectAppends(eventLog, "not implemented");
    const conflict = await getAppendError(eventLog, `auditor-${randomUUID()}`, 5n);
    expect(conflict).to.be.instanceOf(WrongExpectedRevisionError);
  });

  it("if the client replaces its connection, a sent append completes and the next append uses the new connection", async () => {
    const client = connect(proxy.url);
    const eventLog = createEventLog(client);
    await expectAppends(eventLog, "none");
    let release = () => {};
    const hold = new Promise<void>((resolve) => {
      release = resolve;
    });
    let heldCall: ProxiedCall | undefined;
    proxy.onStep = (step, call) => {
      if (step !== "answered" || heldCall) return undefined;
      heldCall = call;
      return hold;
    };
    const heldAppend = getAppendError(eventLog);
    await eventually("the held append", () => heldCall !== undefined);
    proxy.onStep = (step, call) => step === "opened" && call.refuse(14);
    expect(await eventLog.read("auditor-1").catch((error: Error) => error)).to.be.instanceOf(LogUnavailableError);
    proxy.onStep = () => undefined;
    await expectAppends(eventLog, "new connection");
    release();
    expect(await heldAppend).to.equal(undefined);
  });

  it("if responses of shared calls never arrive, an append is repeated after 4 s, and later appends do not wait", async () => {
    const eventLog = createEventLog(connect(proxy.url));
    let sharedCallCount = 0;
    proxy.onStep = (step, call) => {
      if (!call.path.endsWith("/BatchAppend")) return undefined;
      if (step === "opened") sharedCallCount += 1;
      return step === "answered" && delay(60_000, undefined, { ref: false });
    };
    const startedAt = performance.now();
    for (let n = 0; n < 3; n += 1) await expectAppends(eventLog, "no response");
    expect(performance.now() - startedAt).to.be.above(3_900);
    expect(sharedCallCount).to.equal(1);
  });

  it("an append with a permanent refusal fails at once, and later appends succeed", async () => {
    for (const status of PERMANENT_STATUSES) {
      const eventLog = createEventLog(connect(proxy.url));
      const countCalls = refuseAppends(status);
      const error = await getAppendError(eventLog);
      expect(error, `status ${status}`).to.include({ code: status }).and.not.instanceOf(LogUnavailableError);
      expect(countCalls()).to.equal(2);
      proxy.onStep = () => undefined;
      await expectAppends(eventLog, `status ${status}`);
    }
  });

  it("an append that exceeds a size limit of EventStoreDB or KurrentDB fails at once with event_too_large", async () => {
    const eventLog = createEventLog(connect(proxy.url));
    const refusals = [
      { exception: "maximum-append-size-exceeded", "maximum-append-size": "1000" },
      { exception: "maximum-append-event-size-exceeded", "maximum-append-event-size": "1000" },
    ];
    for (const refusal of refusals) {
      const countCalls = refuseAppends(3, refusal);
      expect(await getAppendError(eventLog)).to.include({ name: "DomainError", code: "event_too_large" });
      expect(countCalls()).to.equal(2);
    }
  });

  it("if megabytes of appends wait while a connection closes, each append succeeds or fails with its own error", async () => {
    const faultProxy = await startFaultProxy(log.eventstoreUrl);
    const eventLog = createEventLog(connect(faultProxy.url));
    await expectAppends(eventLog, "none");
    faultProxy.mute();
    const appends = Array.from({ length: 64 }, () => {
      const stream = `auditor-${randomUUID()}`;
      const events = Array.from({ length: 200 }, () => createRevocation(stream));
      return eventLog.append(stream, EMPTY_STREAM, events);
    });
    await delay(500);
    faultProxy.disconnect();
    faultProxy.restore();
    for (const outcome of await Promise.allSettled(appends))
      if (outcome.status === "rejected") expect(outcome.reason).to.be.instanceOf(LogUnavailableError);
    await expectAppends(eventLog, "closed connection");
  });

  it("if a call fails while the client searches for the leader of a cluster in vain, later appends succeed", async () => {
    const clusterProxy = await startGrpcProxy(log.eventstoreUrl, "127.0.0.2");
    const { port } = new URL(clusterProxy.url);
    const eventLog = createEventLog(connect(`esdb://127.0.0.2:1,127.0.0.2:${port}?tls=false`));
    const read = () => eventLog.read("auditor-1").catch((error: Error) => error);
    expect(await read()).to.deep.equal([]);
    let heldCall: ProxiedCall | undefined;
    clusterProxy.onStep = (step, call) => {
      if (step !== "opened") return undefined;
      if (call.path.endsWith("/BatchAppend") && !heldCall) {
        heldCall = call;
        return delay(60_000, undefined, { ref: false });
      }
      // The search has started.
      if (call.path.includes("Gossip")) heldCall?.refuse(14);
      return call.refuse(14);
    };
    const appendError = getAppendError(eventLog);
    await eventually("the append", () => heldCall !== undefined);
    expect(await read()).to.be.instanceOf(LogUnavailableError);
    expect(await read()).to.be.instanceOf(LogUnavailableError);
    expect(await appendError).to.be.instanceOf(LogUnavailableError);
    clusterProxy.onStep = () => undefined;
    await expectAppends(eventLog, "no leader");
  });

  it("appends succeed within 15 s after a log has disappeared silently and has returned", async () => {
    const faultProxy = await startFaultProxy(log.eventstoreUrl);
    const connectedLog = createEventLog(connect(faultProxy.url));
    await expectAppends(connectedLog, "none");
    faultProxy.mute();
    const connectingClient = connect(`${faultProxy.url}&keepAliveTimeout=6000`);
    const connectingLog = createEventLog(connectingClient);
    const firstAppends = [getAppendError(connectedLog), getAppendError(connectingLog)];
    await delay(200);
    // Both connections stay silent. Only new connections work.
    faultProxy.restore();
    const restoredAt = performance.now();
    await Promise.all(firstAppends);
    for (const eventLog of [connectedLog, connectingLog]) {
      while (await getAppendError(eventLog)) expect(performance.now() - restoredAt).to.be.below(20_000);
      await expectAppends(eventLog, "silence");
    }
  });

  it("under load with random faults, each acknowledged event is stored once, and appends work soon after the last fault", async () => {
    const logs = [1, 2].map(() => createEventLog(connect(proxy.url)));
    const faults = [...Object.values(TEMPORARY_FAULTS), () => delay(300), () => delay(300)];
    const faultCounts = faults.map(() => 0);
    proxy.onStep = (_, call) => {
      if (Math.random() > 0.01) return undefined;
      const index = Math.floor(Math.random() * faults.length);
      faultCounts[index]! += 1;
      return faults[index]!(call);
    };
    let isOver = false;
    const writers = logs.flatMap((eventLog) =>
      Array.from({ length: 16 }, async () => {
        const stream = `auditor-${randomUUID()}`;
        const ids: string[] = [];
        while (!isOver) {
          const event = createRevocation(stream);
          // A caller repeats a write that failed with 503.
          while (await getAppendError(eventLog, stream, BigInt(ids.length - 1), event));
          ids.push(event.id);
        }
        return { stream, ids };
      }),
    );
    await eventually("3 faults of each kind", () => faultCounts.every((count) => count >= 3));
    proxy.onStep = () => undefined;
    const endedAt = performance.now();
    for (const eventLog of logs) expect(await getAppendError(eventLog)).to.equal(undefined);
    expect(performance.now() - endedAt, "shorter than the pause of shared calls").to.be.below(20_000);
    isOver = true;
    const results = await Promise.all(writers);
    const directLog = createEventLog(connect(log.eventstoreUrl));
    for (const { stream, ids } of results)
      expect((await directLog.read(stream)).map(({ id }) => id)).to.deep.equal(ids);
  });

  it("a service is not ready while only appends fail, and the check writes nothing", async () => {
    const client = connect(proxy.url);
    const checkReadiness = createEventStoreReadinessCheck(client, createLogger("test", "silent"));
    const logEnd = await readLogEnd(client);
    expect(await checkReadiness()).to.deep.equal({ eventstore: null });
    proxy.onStep = (_, call) => !call.path.endsWith("/Read") && call.reset(constants.NGHTTP2_REFUSED_STREAM);
    expect(await checkReadiness()).to.deep.equal({ eventstore: "unavailable" });
    proxy.onStep = () => undefined;
    expect(await checkReadiness()).to.deep.equal({ eventstore: null });
    expect(await readLogEnd(client)).to.equal(logEnd);
  });
});

/** Appends an event, by default to a new stream. Returns the error; undefined if the append succeeds. */
function getAppendError(
  eventLog: EventLog,
  stream = `auditor-${randomUUID()}`,
  expectedRevision = EMPTY_STREAM,
  event = createRevocation(stream),
): Promise<Error | undefined> {
  return eventLog.append(stream, expectedRevision, [event]).then(
    () => undefined,
    (error: Error) => error,
  );
}
