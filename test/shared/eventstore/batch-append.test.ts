import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { EventStoreDBClient } from "@eventstore/db-client";
import shared from "@eventstore/db-client/generated/shared_pb.js";
import statusPb from "@eventstore/db-client/generated/status_pb.js";
import streamsGrpc from "@eventstore/db-client/generated/streams_grpc_pb.js";
import streams, { type BatchAppendReq, type BatchAppendResp } from "@eventstore/db-client/generated/streams_pb.js";
import { Server, ServerCredentials, type ServerDuplexStream } from "@grpc/grpc-js";
import { expect } from "chai";
import type { Message } from "google-protobuf";
import anyPb from "google-protobuf/google/protobuf/any_pb.js";
import emptyPb from "google-protobuf/google/protobuf/empty_pb.js";
import { appendEventsInSharedCall, UnexpectedRevisionError } from "../../../shared/eventstore/append.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { LogUnavailableError, toAppendError } from "../../../shared/eventstore/log.ts";
import { connectToLog } from "../../support/connections.ts";
import { eventually } from "../../support/eventually.ts";
import { getRejection } from "../../support/rejection.ts";

type Call = ServerDuplexStream<BatchAppendReq, BatchAppendResp>;

interface ReceivedAppend {
  stream: string;
  byteCount: number;
  call: Call;
  respond(result: "success" | InstanceType<typeof statusPb.Status>): void;
}

describe("appends that share a call", () => {
  let server: Server;
  let url: string;
  let client: EventStoreDBClient;
  let calls: Call[];
  let received: ReceivedAppend[];
  let handle: (append: ReceivedAppend) => void;

  beforeEach(async () => {
    calls = [];
    received = [];
    handle = ({ respond }) => respond("success");
    server = new Server();
    const service = { batchAppend: streamsGrpc.StreamsService.batchAppend };
    server.addService(service, { batchAppend: receiveAppends });
    const port = await new Promise<number>((resolve, reject) =>
      server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, boundPort) =>
        error ? reject(error) : resolve(boundPort),
      ),
    );
    url = `esdb://127.0.0.1:${port}?tls=false`;
    client = connectToLog(url);
  });
  afterEach(async () => {
    server.forceShutdown();
  });

  function receiveAppends(call: Call): void {
    calls.push(call);
    call.on("error", () => undefined);
    call.on("data", (request: BatchAppendReq) => {
      const [message] = request.getProposedMessagesList();
      const receivedAppend: ReceivedAppend = {
        stream: Buffer.from(request.getOptions()?.getStreamIdentifier()?.getStreamName_asU8() ?? []).toString(),
        byteCount: message?.getData_asU8().length ?? 0,
        call,
        respond(result) {
          const response = new streams.BatchAppendResp()
            .setCorrelationId(request.getCorrelationId())
            .setStreamIdentifier(request.getOptions()?.getStreamIdentifier());
          const position = new shared.AllStreamPosition().setCommitPosition("7").setPreparePosition("7");
          if (result !== "success") response.setError(result);
          else response.setSuccess(new streams.BatchAppendResp.Success().setCurrentRevision("0").setPosition(position));
          call.write(response);
        },
      };
      received.push(receivedAppend);
      handle(receivedAppend);
    });
  }

  function append(stream: string, { timeoutMs = 10_000, byteCount = 2, from = client } = {}): Promise<bigint> {
    const data = Buffer.alloc(byteCount, " ");
    const event = {
      id: randomUUID(),
      type: "Tested",
      contentType: "application/json",
      data,
      metadata: Buffer.from("{}"),
    };
    return appendEventsInSharedCall(from, stream, -1n, [event], timeoutMs);
  }

  it("an append without a response fails at its own time limit, and delays no other append", async () => {
    handle = ({ stream, respond }) => {
      if (stream === "later") setTimeout(() => respond("success"), 600);
      else if (stream !== "lost") respond("success");
    };
    const startedAt = performance.now();
    const lostError = getRejection(append("lost", { timeoutMs: 300 }));
    const later = append("later");
    expect(await append("other")).to.equal(7n);
    expect(toAppendError(await lostError)).to.be.instanceOf(LogUnavailableError);
    expect(performance.now() - startedAt).to.be.within(290, 590);
    expect(await append("next")).to.equal(7n);
    expect(await later).to.equal(7n);
  });

  it("after an append in a call without any response, appends fail at once for a minute, and then use a new call", async () => {
    handle = () => undefined;
    await getRejection(append("lost", { timeoutMs: 100 }));
    handle = ({ respond }) => respond("success");
    expect(await getRejection(append("next"))).to.include({ message: "the log did not respond in shared calls" });
    expect(received).to.have.length(1);
    const { now } = performance;
    performance.now = () => now.call(performance) + 60_000;
    try {
      expect(await append("later")).to.equal(7n);
      received[0]?.respond("success");
      expect(await append("last")).to.equal(7n);
    } finally {
      performance.now = now;
    }
    expect(calls).to.have.length(2);
  });

  const endings: Record<string, (call: Call) => unknown> = {
    "ends with an error": (call) => call.emit("error", { code: 14, details: "stopped" }),
    "ends without an error": (call) => call.end(),
  };
  for (const [ending, end] of Object.entries(endings))
    it(`a call that ${ending} fails its appends, and no append of another client`, async () => {
      const otherClient = connectEventStore(url, "other");
      handle = () => undefined;
      const otherAppend = append("other", { from: otherClient });
      await eventually("the other append", () => received.length === 1);
      const errors = Array.from({ length: 8 }, (_, index) => getRejection(append(`a-${index}`)));
      await eventually("8 appends", () => received.length === 9);
      end(received[4]!.call);
      for (const error of await Promise.all(errors))
        expect(error).to.satisfy(({ message }: Error) => /stopped|ended the call/.test(message));
      handle = ({ respond }) => respond("success");
      received[0]?.respond("success");
      expect(await otherAppend).to.equal(7n);
      expect(await append("next")).to.equal(7n);
      await otherClient.dispose();
    });

  it("a larger append is sent on its own call", async () => {
    // The fake server implements only BatchAppend.
    const error = await getRejection(append("large", { byteCount: 1_100_000 }));
    expect(error).to.include({ code: 12 });
    expect(received).to.deep.equal([]);
  });

  it("the client cancels a call that has been idle for 1 s, and an append before this time keeps the call", async () => {
    await append("first");
    const [call] = calls;
    await delay(700);
    await append("second");
    await delay(700);
    expect(call?.cancelled).to.equal(false);
    expect(calls).to.have.length(1);
    await eventually("the end of the call", () => call?.cancelled === true);
    await append("third");
    expect(calls).to.have.length(2);
  });

  it("disposing the client cancels the call", async () => {
    await append("first");
    await client.dispose();
    await eventually("the end of the call", () => calls[0]?.cancelled === true, 500);
  });

  it("responses in another order resolve their own appends", async () => {
    handle = () => undefined;
    const appends = Array.from({ length: 20 }, (_, index) => append(`stream-${index}`).catch((error: Error) => error));
    await eventually("the appends", () => received.length === 20);
    const refusal = createStatus(2, "event_store.client.Unknown", new shared.Unknown());
    for (const { stream, respond } of received.slice().reverse()) respond(stream.endsWith("7") ? refusal : "success");
    for (const [index, result] of (await Promise.all(appends)).entries())
      if (index % 10 === 7) expect(result).to.be.instanceOf(Error);
      else expect(result).to.equal(7n);
    expect(calls).to.have.length(1);
  });

  it("a response without an append, or a second one, has no effect", async () => {
    handle = ({ call, respond }) => {
      call.write(new streams.BatchAppendResp().setCorrelationId(new shared.UUID().setString(randomUUID())));
      call.write(new streams.BatchAppendResp());
      for (let n = 0; n < 2; n += 1) respond("success");
    };
    expect(await Promise.all([append("a"), append("b")])).to.deep.equal([7n, 7n]);
    expect(await append("c")).to.equal(7n);
    expect(calls).to.have.length(1);
  });

  it("if the server drains its connections, a sent append completes and the next append uses a new connection", async () => {
    await append("first");
    handle = () => undefined;
    const sent = append("sent");
    await eventually("the append", () => received.length === 2);
    server.drain(new URL(url).host, 10_000);
    await delay(200);
    handle = ({ respond }) => respond("success");
    expect(await append("next")).to.equal(7n);
    expect(new Set(calls.map((call) => call.getPeer())).size).to.equal(2);
    received[1]?.respond("success");
    expect(await sent).to.equal(7n);
  });

  it("a refused append fails, and the call continues", async () => {
    const wrongVersion = new shared.WrongExpectedVersion().setExpectedNoStream(new emptyPb.Empty());
    const missingStream = new shared.WrongExpectedVersion().setCurrentNoStream(new emptyPb.Empty());
    const isRefusal = (error: Error) => error.message === "the log refused the append in a shared call: refused";
    const refusals: [number, string, Message, (error: Error) => boolean][] = [
      [6, "WrongExpectedVersion", wrongVersion.setCurrentStreamRevision("41"), (error) => hasRevision(error, 41n)],
      [6, "WrongExpectedVersion", missingStream, (error) => hasRevision(error, -1n)],
      [5, "StreamDeleted", new shared.StreamDeleted(), isRefusal],
      [0, "AnUnknownType", new emptyPb.Empty(), isRefusal],
    ];
    for (const [code, type, details, isExpected] of refusals) {
      handle = ({ respond }) => respond(createStatus(code, `event_store.client.${type}`, details));
      expect(await getRejection(append("refused")), type).to.satisfy(isExpected);
    }
    handle = ({ respond }) => respond(new statusPb.Status().setMessage("refused"));
    expect(await getRejection(append("refused"))).to.satisfy(isRefusal);
    expect(calls).to.have.length(1);
  });
});

function createStatus(code: number, type: string, details: Message) {
  const packed = new anyPb.Any();
  packed.pack(details.serializeBinary(), type);
  return new statusPb.Status().setCode(code).setMessage("refused").setDetails(packed);
}

function hasRevision(error: unknown, revision: bigint): boolean {
  return error instanceof UnexpectedRevisionError && error.lastRevision === revision;
}
