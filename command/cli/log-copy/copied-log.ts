import { ANY, convertToCommandError, type EventStoreDBClient, StreamDeletedError } from "@eventstore/db-client";
import shared from "@eventstore/db-client/generated/shared_pb.js";
import streamsGrpc from "@eventstore/db-client/generated/streams_grpc_pb.js";
import streams, { type ReadResp } from "@eventstore/db-client/generated/streams_pb.js";
import type { ClientReadableStream } from "@grpc/grpc-js";
import { DomainError } from "../../../shared/domain/domain-error.ts";
import { appendEvents, UnexpectedRevisionError } from "../../../shared/eventstore/append.ts";
import {
  connectEventStore,
  REACH_TIMEOUT_MS,
  reachEventStore,
  removeSecrets,
} from "../../../shared/eventstore/connect.ts";
import { toGrpcClient } from "../../../shared/eventstore/grpc-client.ts";
import {
  EMPTY_STREAM,
  isAccessDenied,
  LogUnavailableError,
  toAppendError,
  toLogError,
} from "../../../shared/eventstore/log.ts";
import { readLogEnd } from "../../../shared/eventstore/read-log.ts";
import { createSilenceWatchdog } from "../../../shared/eventstore/subscription.ts";
import { onAbort } from "../../../shared/runtime/abort.ts";
import { ServerUnavailableError, StartError } from "../../../shared/runtime/run-service.ts";
import { TimeoutError, withTimeout } from "../../../shared/runtime/timeout.ts";
import { createRetry, type RetryOptions } from "../retry.ts";
import { type EncodedEvent, encodeEvent, isTombstone, type StoredEvent, type StoredPosition } from "./stored-event.ts";

/**
 * Source or target of a copy. Retries each request while the log is unavailable. Finally throws a
 * {@link ServerUnavailableError} that names the log.
 */
export class CopiedLog {
  readonly #name: "source" | "target";
  readonly #url: string;
  readonly #client: EventStoreDBClient;
  readonly #signal: AbortSignal;
  readonly #retry: ReturnType<typeof createRetry>;
  #endPosition = -1n;
  #events: AsyncGenerator<StoredEvent, void> | undefined;
  #position: StoredPosition | undefined;
  readonly #readNext = () => this.#read();

  /** @throws {StartError} if the client refuses the URL */
  constructor(name: "source" | "target", url: string, options: RetryOptions & { signal: AbortSignal }) {
    this.#name = name;
    this.#url = url;
    this.#client = connectEventStore(url, "log copy", this.#setting);
    this.#signal = options.signal;
    this.#retry = createRetry({ ...options, logName: `the ${name} log` });
  }

  get #setting() {
    return this.#name === "source" ? "EVENTSTORE_URL" : "COPY_TARGET_URL";
  }

  /**
   * Checks that the log responds.
   *
   * @throws {StartError} if the log denies access
   * @throws {ServerUnavailableError}
   */
  async open(): Promise<void> {
    try {
      await reachEventStore(this.#client, REACH_TIMEOUT_MS);
      this.#endPosition = await readLogEnd(this.#client);
    } catch (error) {
      throw this.#describe(error);
    }
  }

  /** Fraction of the log that has been read, from 0 to 1, relative to the size of the log when it was opened. */
  get share(): number {
    return Math.min(1, Number(this.#position?.commit ?? 0n) / Number(this.#endPosition || 1n));
  }

  /**
   * Returns the next event to copy, in log order. Returns undefined at the end of the log. A later call then returns
   * events that were appended in the meantime.
   */
  next(): Promise<EncodedEvent | undefined> {
    return this.#request(this.#readNext);
  }

  /**
   * Appends consecutive events of one stream at their revisions. Repeating an append has no effect.
   *
   * @throws {DomainError} if the stream does not end directly before the first event
   * @throws {StartError} if the user may not write to the stream
   * @throws {ServerUnavailableError}
   */
  async append(events: readonly EncodedEvent[]): Promise<void> {
    const [firstEvent] = events;
    if (!firstEvent) return;
    const { stream, revision } = firstEvent;
    try {
      await this.#request(async () => {
        try {
          if (isTombstone(firstEvent)) await tombstoneStream(this.#client, stream);
          else await appendEvents(this.#client, stream, revision - 1n, events, REACH_TIMEOUT_MS);
        } catch (error) {
          throw isAccessDenied(error) ? createDenialError(stream) : toAppendError(error);
        }
      });
    } catch (error) {
      if (error instanceof UnexpectedRevisionError) throw createConflictError(firstEvent, error.lastRevision);
      if (error instanceof Error && error.name === "Error")
        throw new Error(`revision ${revision} of stream ${stream} cannot be copied: ${error.message}`, {
          cause: error,
        });
      throw error;
    }
  }

  async close(): Promise<void> {
    const events = this.#events;
    this.#events = undefined;
    await events?.return();
    await this.#client.dispose();
  }

  #request<Result>(send: () => Promise<Result>): Promise<Result> {
    return this.#retry(send).catch((error: unknown) => {
      throw this.#describe(error);
    });
  }

  async #read(): Promise<EncodedEvent | undefined> {
    try {
      for (;;) {
        this.#events ??= readAllStreams(this.#client, this.#position, this.#signal);
        const { value: event, done } = await this.#events.next();
        if (done) break;
        // A read that starts at a position begins with the event at that position.
        if (event.position.commit === this.#position?.commit) continue;
        // System streams are not copied, but the metadata streams of all other streams are.
        const isCopied = !event.stream.replace(/^\$\$/, "").startsWith("$");
        const copiedEvent = isCopied ? { ...event, encodedBytes: encodeEvent(event) } : undefined;
        this.#position = event.position;
        if (copiedEvent) return copiedEvent;
      }
    } catch (error) {
      this.#events = undefined;
      throw error;
    }
    this.#events = undefined;
    if ((this.#position?.commit ?? -1n) < this.#endPosition)
      throw new LogUnavailableError("the event log ended a read early");
    return undefined;
  }

  #describe(error: unknown): unknown {
    const label = `the ${this.#name} log at ${removeSecrets(this.#url)}`;
    if (error instanceof LogUnavailableError) {
      const problem = `${label} does not respond; check ${this.#setting} and run the command again`;
      return new ServerUnavailableError(problem, { cause: error });
    }
    if (isAccessDenied(error))
      return new StartError(
        `${label} denies access; check the user in ${this.#setting}, and that the user may read $all`,
      );
    // Errors of the client have a type.
    return error instanceof Error && "type" in error
      ? new Error(`${label} reported an error: ${error.message}`, { cause: error })
      : error;
  }
}

async function tombstoneStream(client: EventStoreDBClient, stream: string): Promise<void> {
  try {
    await client.tombstoneStream(stream, { expectedRevision: ANY, requiresLeader: true });
  } catch (error) {
    // An earlier attempt has deleted the stream, but its response was lost.
    if (!(error instanceof StreamDeletedError)) throw error;
  }
}

function createDenialError(stream: string): StartError {
  return new StartError(
    `the target log does not let the user in COPY_TARGET_URL write stream ${stream}; use a member of $admins, because the copied metadata of a stream can restrict its access`,
  );
}

function createConflictError({ stream, revision }: StoredEvent, lastRevision: bigint): DomainError {
  if (lastRevision < revision - 1n) {
    const start = lastRevision === EMPTY_STREAM ? "the start" : `revision ${lastRevision}`;
    return new DomainError(
      "revision_gap",
      `in the source, stream ${stream} has no events between ${start} and revision ${revision}, for example because they were scavenged; a copy cannot reproduce this gap`,
    );
  }
  return new DomainError(
    "target_changed",
    `in the target, stream ${stream} already has revision ${lastRevision}: another program writes to the target, or the stream was written to again after its deletion, which a copy cannot reproduce`,
  );
}

/**
 * Reads the events of all streams in log order, up to the end of the log. Yields data and metadata as bytes. The
 * client's own read functions parse JSON, which can change the bytes of numbers, spaces and escapes.
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
    responses = await withTimeout(REACH_TIMEOUT_MS, openRead(client, startPosition));
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

function openRead(client: EventStoreDBClient, from: StoredPosition | undefined) {
  const { Options } = streams.ReadReq;
  const allOptions = new Options.AllOptions();
  const position = new Options.Position();
  if (from)
    allOptions.setPosition(position.setCommitPosition(String(from.commit)).setPreparePosition(String(from.prepare)));
  else allOptions.setStart(new shared.Empty());
  const options = new Options()
    .setAll(allOptions)
    .setReadDirection(Options.ReadDirection.FORWARDS)
    .setResolveLinks(false)
    .setCount(String(Number.MAX_SAFE_INTEGER))
    .setNoFilter(new shared.Empty())
    .setUuidOption(new Options.UUIDOption().setString(new shared.Empty()));
  const request = new streams.ReadReq().setOptions(options);
  const { GRPCStreamCreator, callArguments } = toGrpcClient(client);
  const grpcArguments = callArguments({ requiresLeader: true }, { deadline: Number.POSITIVE_INFINITY });
  return GRPCStreamCreator(streamsGrpc.StreamsClient, "readAll", (grpc) => grpc.read(request, ...grpcArguments))();
}

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
