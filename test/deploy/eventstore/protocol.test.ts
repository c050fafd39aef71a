/** Tests of requests that the client package never sends, and of features that the embedded log does not support. */

import { randomUUID } from "node:crypto";
import {
  EventStoreDBClient,
  eventTypeFilter,
  type Filter,
  NO_STREAM,
  persistentSubscriptionToStreamSettingsFromDefaults,
  streamNameFilter,
} from "@eventstore/db-client";
import type { StreamsClient } from "@eventstore/db-client/generated/streams_grpc_pb.js";
import { status } from "@grpc/grpc-js";
import { expect } from "chai";
import empty from "google-protobuf/google/protobuf/empty_pb.js";
import timestamps from "google-protobuf/google/protobuf/timestamp_pb.js";
import { collect, createEvent, createStreamName } from "../../conformance/log-under-test.ts";
import { RecordedSubscription } from "../../conformance/recorded-subscription.ts";
import { eventually } from "../../support/eventually.ts";
import { startSeparateLog } from "../../support/own-log.ts";
import { getRejection } from "../../support/rejection.ts";
import { releaseLater } from "../../support/resources.ts";
import { createClient } from "./log-process.ts";
import {
  createProposedMessage,
  createRawClient,
  createReadOptions,
  createStreamIdentifier,
  createTextId,
  sendBatchAppend,
  sendRead,
  shared,
  streams,
} from "./raw-client.ts";

/** Value of google.rpc.Code.INVALID_ARGUMENT in responses of BatchAppend. */
const CODE_INVALID_ARGUMENT = 3;

describe("the embedded log's protocol", () => {
  let port: number;
  let client: EventStoreDBClient;
  let rawClient: StreamsClient;

  before(async () => {
    ({ port } = await startSeparateLog());
    client = createClient(port);
    rawClient = createRawClient(port);
  });

  function createBatchRequest(name: string | Uint8Array, correlationId = randomUUID() as string) {
    const options = new streams.BatchAppendReq.Options().setStreamIdentifier(createStreamIdentifier(name));
    options.setAny(new empty.Empty());
    return new streams.BatchAppendReq()
      .setCorrelationId(createTextId(correlationId))
      .setOptions(options)
      .setProposedMessagesList([createProposedMessage(createTextId(randomUUID()))])
      .setIsFinal(true);
  }

  describe("stream names", () => {
    const invalidNames: [string, string | Uint8Array][] = [
      ["an empty name", ""],
      ["a name with a NUL character", "a\0b"],
      ["a name that is not UTF-8", Uint8Array.from([0xff, 0xfe])],
      ["a name that is too long", "x".repeat(5000)],
      ["the name of all streams", "$all"],
    ];
    for (const [caseName, name] of invalidNames)
      it(`${caseName} is refused as the stream name of an append, read or deletion, and later calls work`, async () => {
        const validRequest = createBatchRequest(createStreamName());
        const { appendResponses, error } = await sendBatchAppend(rawClient, [createBatchRequest(name), validRequest]);
        expect(error).to.equal(undefined);
        expect(
          appendResponses.filter((response) => response.getError()?.getCode() === CODE_INVALID_ARGUMENT),
        ).to.have.length(1);
        expect(appendResponses.filter((response) => response.hasSuccess())).to.have.length(1);

        const stream = new streams.ReadReq.Options.StreamOptions().setStreamIdentifier(createStreamIdentifier(name));
        const readResult = await sendRead(
          rawClient,
          createReadOptions().setStream(stream.setStart(new shared.Empty())),
        );
        expect(readResult.error?.code).to.equal(status.INVALID_ARGUMENT);
        if (typeof name === "string") {
          const deletionError = await getRejection(client.deleteStream(name));
          expect((deletionError as Error & { code: number }).code).to.equal(status.INVALID_ARGUMENT);
        }
      });

    it("the error for a stream name with a NUL character mentions the character", async () => {
      const error = await getRejection(client.appendToStream("a\0b", createEvent(0)));
      expect(error.message).to.include("NUL");
    });

    it("an error about a deleted stream with a non-ASCII name reaches the client", async () => {
      const name = createStreamName("gelöscht");
      await client.tombstoneStream(name);
      const error = await getRejection(collect(client.readStream(name)));
      expect((error as Error & { type: string }).type).to.equal("stream-deleted");
    });
  });

  it("an empty append that expects no stream is accepted for a deleted stream, as by KurrentDB 26", async () => {
    const [softDeleted, tombstoned] = [createStreamName(), createStreamName()];
    for (const name of [softDeleted, tombstoned]) await client.appendToStream(name, createEvent(0));
    await client.deleteStream(softDeleted);
    await client.tombstoneStream(tombstoned);
    const revisions: bigint[] = [];
    for (const credentials of [{}, { credentials: { username: "admin", password: "changeit" } }]) {
      const options = { expectedRevision: NO_STREAM, ...credentials } as const;
      for (const name of [softDeleted, tombstoned])
        revisions.push((await client.appendToStream(name, [], options)).nextExpectedRevision);
      await client.deleteStream(softDeleted);
    }
    expect(revisions).to.deep.equal([0n, 2n ** 63n - 1n, 0n, 2n ** 63n - 1n]);
    const error = await getRejection(client.appendToStream(tombstoned, [], { expectedRevision: 0n }));
    expect((error as Error & { type: string }).type).to.equal("stream-deleted");
  });

  describe("ids", () => {
    it("a client can append an event id as two numbers, and read the id as text or as two numbers", async () => {
      const id = "f0e1d2c3-b4a5-4697-8879-6a5b4c3d2e1f";
      const name = createStreamName();
      const structuredId = new shared.UUID.Structured()
        .setMostSignificantBits(BigInt.asIntN(64, 0xf0e1d2c3b4a54697n).toString())
        .setLeastSignificantBits(BigInt.asIntN(64, 0x88796a5b4c3d2e1fn).toString());
      const numericId = new shared.UUID().setStructured(structuredId);
      const request = createBatchRequest(name)
        .setProposedMessagesList([createProposedMessage(numericId)])
        .setCorrelationId(numericId);
      const { appendResponses } = await sendBatchAppend(rawClient, [request]);
      expect(appendResponses[0]?.getCorrelationId()?.getStructured()?.toObject()).to.deep.equal(
        structuredId.toObject(),
      );
      const [resolvedEvent] = await collect(client.readStream(name));
      expect(resolvedEvent?.event?.id).to.equal(id);

      const stream = new streams.ReadReq.Options.StreamOptions().setStreamIdentifier(createStreamIdentifier(name));
      const uuidOption = new streams.ReadReq.Options.UUIDOption().setStructured(new shared.Empty());
      const options = createReadOptions().setStream(stream.setStart(new shared.Empty())).setUuidOption(uuidOption);
      const { responses } = await sendRead(rawClient, options);
      const event = responses[0]?.getEvent()?.getEvent();
      expect(event?.getId()?.getStructured()?.toObject()).to.deep.equal(structuredId.toObject());
      expect(Buffer.from(event?.getData_asU8() ?? []).toString()).to.equal("{}");
    });

    it("an append with an invalid event id or without an event type is refused", async () => {
      const requestWithoutId = createBatchRequest(createStreamName()).setProposedMessagesList([
        createProposedMessage(createTextId("not-a-uuid")),
      ]);
      const eventWithoutType = createProposedMessage(createTextId(randomUUID()));
      eventWithoutType.getMetadataMap().del("type");
      const { appendResponses } = await sendBatchAppend(rawClient, [
        requestWithoutId,
        createBatchRequest(createStreamName()).setProposedMessagesList([eventWithoutType]),
      ]);
      expect(appendResponses.map((response) => response.getError()?.getCode())).to.deep.equal([3, 3]);
    });
  });

  describe("BatchAppend", () => {
    it("BatchAppend sends one response for an append in several parts, even if an early part is refused", async () => {
      const correlationId = randomUUID();
      const name = createStreamName();
      const createLargePart = (isFinal: boolean) => {
        const part = createBatchRequest(name, correlationId).setIsFinal(isFinal);
        const largeMessage = createProposedMessage(createTextId(randomUUID())).setData(Buffer.alloc(600_000));
        return part.setProposedMessagesList([largeMessage]);
      };
      const laterParts = [1, 2, 3].map((n) => {
        const part = createLargePart(n === 3);
        part.clearOptions();
        return part;
      });
      const { appendResponses, error } = await sendBatchAppend(rawClient, [
        createLargePart(false),
        ...laterParts,
        createBatchRequest(createStreamName()),
      ]);
      expect(error).to.equal(undefined);
      const correlationIds = appendResponses.map((response) => response.getCorrelationId()?.getString());
      expect(correlationIds).to.have.length(2);
      expect(new Set(correlationIds).size).to.equal(2);
      const { responses } = await sendRead(
        rawClient,
        createReadOptions().setStream(
          new streams.ReadReq.Options.StreamOptions()
            .setStreamIdentifier(createStreamIdentifier(name))
            .setStart(new shared.Empty()),
        ),
      );
      expect(responses[0]?.hasStreamNotFound()).to.equal(true);
    });

    it("BatchAppend reports a timeout for an append whose deadline has passed, and does not write the append", async () => {
      const name = createStreamName();
      const lateRequest = createBatchRequest(name);
      const deadline = timestamps.Timestamp.fromDate(new Date(Date.now() - 1000));
      lateRequest.getOptions()?.setDeadline(deadline);
      const { appendResponses } = await sendBatchAppend(rawClient, [lateRequest]);
      expect(appendResponses).to.have.length(1);
      expect(appendResponses[0]?.getError()?.getDetails()?.getTypeName()).to.equal("event_store.client.Timeout");
      expect((await getRejection(collect(client.readStream(name)))).message).to.include("not found");
    });

    it("BatchAppend sends one response for each of thousands of concurrent appends", async () => {
      const count = 3000;
      const requests = Array.from({ length: count }, (_, n) => createBatchRequest(`many-${n % 10}`));
      const { appendResponses, error } = await sendBatchAppend(rawClient, requests);
      expect(error).to.equal(undefined);
      const correlationIds = appendResponses.map((response) => response.getCorrelationId()?.getString());
      expect(correlationIds).to.have.length(count);
      expect(new Set(correlationIds).size).to.equal(count);
    });
  });

  describe("unsupported features", () => {
    async function getSubscriptionError(filter: Filter) {
      const subscription = new RecordedSubscription(client.subscribeToAll({ filter }));
      await eventually("the refusal", () => subscription.errors.length > 0);
      return subscription.errors[0] as Error & { code: number };
    }

    it("a filter with an invalid regular expression is refused", async () => {
      expect((await getSubscriptionError(streamNameFilter({ regex: "(" }))).code).to.equal(status.INVALID_ARGUMENT);
      expect((await getSubscriptionError(eventTypeFilter({ regex: "[" }))).code).to.equal(status.INVALID_ARGUMENT);
    });

    it("a filter without an expression is refused", async () => {
      expect((await getSubscriptionError(streamNameFilter({ prefixes: [] }))).code).to.equal(status.INVALID_ARGUMENT);
    });

    it("metadata of a metadata stream is refused, and so is its deletion", async () => {
      const name = createStreamName();
      expect((await getRejection(client.setStreamMetadata(`$$${name}`, {}))).message).to.include(
        "cannot have metadata",
      );
      expect((await getRejection(client.deleteStream(`$$${name}`))).message).to.include("cannot be deleted");
    });

    it("a read that resolves links is refused", async () => {
      const error = await getRejection(collect(client.readAll({ resolveLinkTos: true })));
      expect((error as Error & { code: number }).code).to.equal(status.UNIMPLEMENTED);
    });

    it("calls to other EventStoreDB services fail with UNIMPLEMENTED", async () => {
      const settings = persistentSubscriptionToStreamSettingsFromDefaults();
      const error = await getRejection(client.createPersistentSubscriptionToStream("s", "g", settings));
      expect((error as Error & { code: number }).code).to.equal(status.UNIMPLEMENTED);
      expect(error.message).to.match(/not implement/);
    });
  });

  it("clients can connect with a connection string for discovery or with several hosts", async () => {
    for (const url of [
      `esdb+discover://127.0.0.1:${port}?tls=false`,
      `esdb://127.0.0.1:${port},127.0.0.1:${port}?tls=false`,
    ]) {
      const clusterClient = EventStoreDBClient.connectionString(url);
      releaseLater(() => clusterClient.dispose());
      const appendResult = await clusterClient.appendToStream(createStreamName(), createEvent(0));
      expect(appendResult.success).to.equal(true);
    }
  });

  it("a filtered read of all streams counts only matching events toward the requested maximum", async () => {
    const name = createStreamName("counted");
    for (let n = 0; n < 5; n += 1) {
      await client.appendToStream(name, createEvent(n));
      await client.appendToStream(createStreamName("other"), createEvent(n));
    }
    const prefixFilter = new streams.ReadReq.Options.FilterOptions.Expression().setPrefixList([name]);
    const filter = new streams.ReadReq.Options.FilterOptions()
      .setStreamIdentifier(prefixFilter)
      .setCount(new shared.Empty())
      .setCheckpointintervalmultiplier(1);
    const { responses } = await sendRead(rawClient, createReadOptions().setFilter(filter).setCount("3"));
    expect(responses.map((response) => response.getEvent()?.getEvent()?.getStreamRevision())).to.deep.equal([
      "0",
      "1",
      "2",
    ]);
  });
});
