/**
 * Sends several appends in one BatchAppend call for each connection. The server responds to each append separately,
 * with its correlation id. If a call fails, only the appends in this call fail.
 */
import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { parseUUID } from "@eventstore/db-client/dist/utils/grpcUUID.js";
import shared from "@eventstore/db-client/generated/shared_pb.js";
import streamsGrpc, { type StreamsClient } from "@eventstore/db-client/generated/streams_grpc_pb.js";
import type { BatchAppendReq, BatchAppendResp } from "@eventstore/db-client/generated/streams_pb.js";
import { type ClientDuplexStream, connectivityState } from "@grpc/grpc-js";
import { toGrpcClient } from "./grpc-client.ts";

/**
 * Time without appends after which a call ends, in milliseconds. An open call would keep a connection open that the
 * client has already replaced.
 */
const IDLE_MS = 1_000;

/**
 * Time in milliseconds for which a connection gets no shared calls, after an append timed out in a call without any
 * response. A load balancer that buffers calls would otherwise delay every append.
 */
const PAUSE_MS = 60_000;

/** Times at which connections may have shared calls again, from `performance.now()`. */
const pauseEnds = new WeakMap<StreamsClient, number>();

/** The current shared call of each connection. A `StreamsClient` stands for one connection of the client. */
const currentCalls = new WeakMap<StreamsClient, SharedCall>();

/**
 * Sends an append in the shared call of the client's connection.
 *
 * @param request complete except for the correlation id
 * @param expiry aborted if the caller no longer waits. If the call has had no response by then, shared calls of the
 *   connection are paused for a minute
 * @throws {Error} if shared calls are paused, or the call fails, perhaps because of another append
 */
export function sendSharedAppend(
  client: EventStoreDBClient,
  request: BatchAppendReq,
  expiry: AbortSignal,
): Promise<BatchAppendResp> {
  return toGrpcClient(client).execute(streamsGrpc.StreamsClient, "batchAppend", async (grpc) => {
    expiry.throwIfAborted();
    if (performance.now() < (pauseEnds.get(grpc) ?? 0)) throw new Error("the log did not respond in shared calls");
    return getCall(client, grpc).send(request, expiry);
  });
}

function getCall(client: EventStoreDBClient, grpc: StreamsClient): SharedCall {
  const currentCall = currentCalls.get(grpc);
  // After GOAWAY, earlier calls keep the old connection, and the channel has none until the next new call.
  const isOutdated =
    currentCall?.hasResponse && grpc.getChannel().getConnectivityState(false) === connectivityState.IDLE;
  if (currentCall && !isOutdated) return currentCall;
  const { callArguments, disposableStreams } = toGrpcClient(client);
  const call = grpc.batchAppend(...callArguments({ requiresLeader: true }, { deadline: Number.POSITIVE_INFINITY }));
  disposableStreams.add(call);
  call.on("status", () => disposableStreams.delete(call));
  const sharedCall = new SharedCall(call, {
    retire: () => {
      if (currentCalls.get(grpc) === sharedCall) currentCalls.delete(grpc);
    },
    pause: () => pauseEnds.set(grpc, performance.now() + PAUSE_MS),
  });
  currentCalls.set(grpc, sharedCall);
  return sharedCall;
}

interface PendingAppend {
  resolve(response: BatchAppendResp): void;
  reject(error: Error): void;
}

interface CallOwner {
  /** Called if new appends must use another call. The appends that were already sent continue. */
  retire(): void;
  /** Called if an append has reached its time limit, and the call has never had a response. Pauses shared calls. */
  pause(): void;
}

class SharedCall {
  readonly #call: ClientDuplexStream<BatchAppendReq, BatchAppendResp>;
  readonly #owner: CallOwner;
  /** Appends without a response, by correlation id. */
  readonly #appends = new Map<string, PendingAppend>();
  hasResponse = false;
  #idleTimer: NodeJS.Timeout | undefined;

  constructor(call: ClientDuplexStream<BatchAppendReq, BatchAppendResp>, owner: CallOwner) {
    this.#call = call;
    this.#owner = owner;
    call.on("data", (response: BatchAppendResp) => {
      this.hasResponse = true;
      this.#remove(parseUUID(response.getCorrelationId()) ?? "")?.resolve(response);
    });
    call.on("error", (error) => this.#fail(error));
    call.on("end", () => this.#fail(new Error("the log ended the call of the append")));
  }

  send(request: BatchAppendReq, expiry: AbortSignal): Promise<BatchAppendResp> {
    return new Promise((resolve, reject) => {
      const id = randomUUID();
      request.setCorrelationId(new shared.UUID().setString(id));
      expiry.addEventListener("abort", () => this.#expire(id, expiry.reason));
      this.#appends.set(id, { resolve, reject });
      this.#call.write(request);
    });
  }

  /** Fails an append. Other appends of the call keep their own time limits. */
  #expire(id: string, error: Error): void {
    const append = this.#remove(id);
    if (!append) return;
    this.#owner.retire();
    // In a call that works, only the append is slow.
    if (!this.hasResponse) this.#owner.pause();
    append.reject(error);
  }

  #fail(error: Error): void {
    this.#owner.retire();
    for (const id of [...this.#appends.keys()]) this.#remove(id)?.reject(error);
  }

  #remove(id: string): PendingAppend | undefined {
    const append = this.#appends.get(id);
    this.#appends.delete(id);
    if (this.#appends.size === 0) {
      this.#idleTimer ??= setTimeout(() => this.#appends.size === 0 && this.#end(), IDLE_MS).unref();
      this.#idleTimer.refresh();
    }
    return append;
  }

  /** Cancels the call, because EventStoreDB does not end a call that the client has only half-closed. */
  #end(): void {
    this.#owner.retire();
    this.#call.cancel();
  }
}
