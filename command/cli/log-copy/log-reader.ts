import { convertToCommandError, type EventStoreDBClient } from "@eventstore/db-client";
import shared from "@eventstore/db-client/generated/shared_pb.js";
import streamsGrpc from "@eventstore/db-client/generated/streams_grpc_pb.js";
import streams, { type ReadResp } from "@eventstore/db-client/generated/streams_pb.js";
import type { ClientReadableStream } from "@grpc/grpc-js";
import { REACH_TIMEOUT_MS } from "../../../shared/eventstore/connect.ts";
import { toGrpcClient } from "../../../shared/eventstore/grpc-client.ts";
import { LogUnavailableError, toLogError } from "../../../shared/eventstore/log.ts";
import { createSilenceWatchdog } from "../../../shared/eventstore/subscription.ts";
import { onAbort } from "../../../shared/runtime/abort.ts";
import { TimeoutError, withTimeout } from "../../../shared/runtime/timeout.ts";
import { type EncodedEvent, encodeEvent, isCopied, type StoredEvent, type StoredPosition } from "./stored-event.ts";

interface ReaderOptions {
  request<Result>(send: () => Promise<Result>): Promise<Result>;
  signal: AbortSignal;
}

/**
 * Reads the events that a copy contains, in log order. After a failure of the log, the reader continues after the last
 * event that it returned. The reader holds only the few events that the client has received in advance.
 */
export class LogReader {
  readonly #client: EventStoreDBClient;
  readonly #endPosition: bigint;
  readonly #options: ReaderOptions;
  #events: AsyncGenerator<StoredEvent, void> | undefined;
  #position: StoredPosition | undefined;
  readonly #readNext = () => this.#read();

  /** @param endPosition position of an event that the log is known to hold. A read that ends before it is repeated. */
  constructor(client: EventStoreDBClient, endPosition: bigint, options: ReaderOptions) {
    this.#client = client;
    this.#endPosition = endPosition;
    this.#options = options;
  }

  /** Log position of the last event that was read, including events that the copy does not contain. */
  get position(): bigint {
    return this.#position?.commit ?? 0n;
  }

  /** Returns the next event; undefined at the end of the log. A later call returns events that were appended since. */
  next(): Promise<EncodedEvent | undefined> {
    return this.#options.request(this.#readNext);
  }

  async close(): Promise<void> {
    const events = this.#events;
    this.#events = undefined;
    await events?.return();
  }

  async #read(): Promise<EncodedEvent | undefined> {
    try {
      for (;;) {
        this.#events ??= readAllStreams(this.#client, this.#position, this.#options.signal);
        const { value: event, done } = await this.#events.next();
        if (done) break;
        // A read that starts at a position begins with the event at that position.
        if (event.position.commit === this.#position?.commit) continue;
        const copiedEvent = isCopied(event) ? { ...event, encodedBytes: encodeEvent(event) } : undefined;
        this.#position = event.position;
        if (copiedEvent) return copiedEvent;
      }
    } catch (error) {
      this.#events = undefined;
      throw error;
    }
    this.#events = undefined;
    if (this.position < this.#endPosition) throw new LogUnavailableError("the event log ended a read early");
    return undefined;
  }
}

/**
 * Reads the events of all streams in log order, up to the end of the log, as bytes. The client's own reads parse JSON,
 * which can change the bytes of numbers, spaces and escapes.
 *
 * @param startPosition position of the first event; undefined for the start of the log
 * @throws {LogUnavailableError} if the log is unavailable or stops sending events, or the signal aborts
 */
async function* readAllStreams(
  client: EventStoreDBClient,
  startPosition: StoredPosition | undefined,
  signal: AbortSignal,
): AsyncGenerator<StoredEvent, void> {
  let responses: ClientReadableStream<ReadResp> | undefined;
  let isSilent = false;
  const watchdog = createSilenceWatchdog(() => {
    isSilent = true;
    responses?.cancel();
  });
  const removeListener = onAbort(signal, () => responses?.cancel());
  try {
    responses = await withTimeout(REACH_TIMEOUT_MS, openRead(client, createReadRequest(startPosition)));
    // A canceled read emits an error even if nobody iterates over the read any more.
    responses.on("error", ignoreCancellation);
    if (signal.aborted) responses.cancel();
    watchdog.restart();
    for await (const response of responses as AsyncIterable<ReadResp>) {
      const event = toStoredEvent(response);
      if (!event) continue;
      watchdog.pause();
      yield event;
      watchdog.restart();
    }
  } catch (error) {
    if (isSilent) throw new LogUnavailableError("the event log stopped sending events", { cause: error });
    throw toLogError(error instanceof TimeoutError ? error : convertToCommandError(error as Error));
  } finally {
    watchdog.end();
    removeListener();
    responses?.cancel();
  }
}

function ignoreCancellation(): void {}

function openRead(client: EventStoreDBClient, request: InstanceType<typeof streams.ReadReq>) {
  const { GRPCStreamCreator, callArguments } = toGrpcClient(client);
  const grpcArguments = callArguments({ requiresLeader: true }, { deadline: Number.POSITIVE_INFINITY });
  return GRPCStreamCreator(streamsGrpc.StreamsClient, "readAll", (grpc) => grpc.read(request, ...grpcArguments))();
}

function createReadRequest(from: StoredPosition | undefined) {
  const allOptions = new streams.ReadReq.Options.AllOptions();
  if (from) {
    const position = new streams.ReadReq.Options.Position();
    allOptions.setPosition(position.setCommitPosition(String(from.commit)).setPreparePosition(String(from.prepare)));
  } else allOptions.setStart(new shared.Empty());
  const options = new streams.ReadReq.Options()
    .setAll(allOptions)
    .setReadDirection(streams.ReadReq.Options.ReadDirection.FORWARDS)
    .setResolveLinks(false)
    .setCount(String(Number.MAX_SAFE_INTEGER))
    .setNoFilter(new shared.Empty())
    .setUuidOption(new streams.ReadReq.Options.UUIDOption().setString(new shared.Empty()));
  return new streams.ReadReq().setOptions(options);
}

/** Converts a response to an event. Returns undefined for responses without an event. */
function toStoredEvent(response: ReadResp): StoredEvent | undefined {
  const event = response.getEvent()?.getEvent();
  if (!event) return undefined;
  const properties = event.getMetadataMap();
  return {
    stream: Buffer.from(event.getStreamIdentifier()?.getStreamName_asU8() ?? []).toString(),
    revision: BigInt(event.getStreamRevision()),
    id: event.getId()?.getString() ?? "",
    type: properties.get("type") ?? "",
    contentType: properties.get("content-type") ?? "",
    data: event.getData_asU8(),
    metadata: event.getCustomMetadata_asU8(),
    position: { commit: BigInt(event.getCommitPosition()), prepare: BigInt(event.getPreparePosition()) },
  };
}
