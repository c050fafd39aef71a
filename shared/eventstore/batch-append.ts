/**
 * Appends that share one BatchAppend call for each connection. The server sends one response for each append, with the
 * correlation id of the append. A failed call fails only its own appends.
 */
import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { parseUUID } from "@eventstore/db-client/dist/utils/grpcUUID.js";
import shared from "@eventstore/db-client/generated/shared_pb.js";
import streamsGrpc, { type StreamsClient } from "@eventstore/db-client/generated/streams_grpc_pb.js";
import type { BatchAppendReq, BatchAppendResp } from "@eventstore/db-client/generated/streams_pb.js";
import { type ClientDuplexStream, connectivityState } from "@grpc/grpc-js";
import { toGrpcClient } from "./grpc-client.ts";

/** Maximum size of an append that shares a call. Bytes. */
export const MAX_SHARED_BYTES = 1024 * 1024;

/** Maximum size of a call's appends without a response. Further appends wait, in order. Bytes. */
const MAX_BYTES_IN_FLIGHT = 4 * MAX_SHARED_BYTES;

/** Time without appends after which a call ends. An open call keeps its connection open after the client replaces it. */
const IDLE_MS = 1_000;

/**
 * Time without a shared call after an append has reached its time limit in one. A load balancer that buffers calls would
 * otherwise delay every append. Milliseconds.
 */
const PAUSE_MS = 60_000;

/** Ends of these pauses, in milliseconds of `performance.now`. */
const pauseEnds = new WeakMap<StreamsClient, number>();

/** The call for the next appends of a connection. The client has one gRPC client for each connection. */
const currentCalls = new WeakMap<StreamsClient, SharedCall>();

/**
 * Sends an append.
 *
 * @param request complete except for the correlation id
 * @param size size of the request, at most {@link MAX_SHARED_BYTES}
 * @param expiry aborted if the caller no longer waits. The connection then has no shared call for a minute
 * @throws {Error} if the connection has no shared call, or the call fails, perhaps because of another append
 */
export function sendSharedAppend(
  client: EventStoreDBClient,
  request: BatchAppendReq,
  size: number,
  expiry: AbortSignal,
): Promise<BatchAppendResp> {
  return toGrpcClient(client).execute(streamsGrpc.StreamsClient, "batchAppend", async (grpc) => {
    expiry.throwIfAborted();
    if (performance.now() < (pauseEnds.get(grpc) ?? 0)) throw new Error("the log did not respond in shared calls");
    return getCall(client, grpc).send(request, size, expiry);
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
  request: BatchAppendReq;
  size: number;
  resolve(response: BatchAppendResp): void;
  reject(error: Error): void;
}

interface CallOwner {
  /** Called if the next appends must not use the call. The appends of the call continue. */
  retire(): void;
  /** Called if an append has reached its time limit. */
  pause(): void;
}

class SharedCall {
  readonly #call: ClientDuplexStream<BatchAppendReq, BatchAppendResp>;
  readonly #owner: CallOwner;
  /** Appends without a response, by correlation id. */
  readonly #sentAppends = new Map<string, PendingAppend>();
  readonly #waitingAppends = new Map<string, PendingAppend>();
  #bytesInFlight = 0;
  hasResponse = false;
  #idleTimer: NodeJS.Timeout | undefined;

  constructor(call: ClientDuplexStream<BatchAppendReq, BatchAppendResp>, owner: CallOwner) {
    this.#call = call;
    this.#owner = owner;
    call.on("data", (response: BatchAppendResp) => {
      this.hasResponse = true;
      this.#remove(parseUUID(response.getCorrelationId()) ?? "")?.resolve(response);
      this.#sendWaiting();
    });
    call.on("error", (error) => this.#fail(error));
    call.on("end", () => this.#fail(new Error("the log ended the call of the append")));
  }

  send(request: BatchAppendReq, size: number, expiry: AbortSignal): Promise<BatchAppendResp> {
    return new Promise((resolve, reject) => {
      const id = randomUUID();
      request.setCorrelationId(new shared.UUID().setString(id));
      expiry.addEventListener("abort", () => this.#expire(id, expiry.reason));
      this.#waitingAppends.set(id, { request, size, resolve, reject });
      this.#sendWaiting();
    });
  }

  #sendWaiting(): void {
    for (const [id, append] of this.#waitingAppends) {
      if (this.#bytesInFlight + append.size > MAX_BYTES_IN_FLIGHT) return;
      this.#waitingAppends.delete(id);
      this.#sentAppends.set(id, append);
      this.#bytesInFlight += append.size;
      this.#call.write(append.request);
    }
  }

  /**
   * Fails an append, and those that wait to be sent, because the server may have stopped reading the call. Sent appends
   * keep their own time limits.
   */
  #expire(id: string, error: Error): void {
    const append = this.#remove(id);
    if (!append) return;
    this.#owner.retire();
    this.#owner.pause();
    append.reject(error);
    for (const waitingId of this.#waitingAppends.keys()) this.#remove(waitingId)?.reject(error);
  }

  #fail(error: Error): void {
    this.#owner.retire();
    for (const id of [...this.#sentAppends.keys(), ...this.#waitingAppends.keys()]) this.#remove(id)?.reject(error);
  }

  #remove(id: string): PendingAppend | undefined {
    const append = this.#sentAppends.get(id) ?? this.#waitingAppends.get(id);
    if (!append) return undefined;
    if (this.#sentAppends.delete(id)) this.#bytesInFlight -= append.size;
    this.#waitingAppends.delete(id);
    if (this.#isIdle()) {
      this.#idleTimer ??= setTimeout(() => this.#isIdle() && this.#end(), IDLE_MS).unref();
      this.#idleTimer.refresh();
    }
    return append;
  }

  #isIdle(): boolean {
    return this.#sentAppends.size === 0 && this.#waitingAppends.size === 0;
  }

  /** Cancels the call, because EventStoreDB does not end a call that the client has only half-closed. */
  #end(): void {
    this.#owner.retire();
    this.#call.cancel();
  }
}
