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

/**
 * Idle time after which a call ends. An open call would keep a connection open that the client has already replaced.
 */
const IDLE_MS = 1_000;

/**
 * Time in milliseconds for which a connection has no shared call, after an append timed out in a call without any
 * response. Otherwise, a load balancer that buffers calls would delay every append.
 */
const PAUSE_MS = 60_000;

/** Times at which connections may have shared calls again, as values of `performance.now()`. */
const pauseEnds = new WeakMap<StreamsClient, number>();

/** The call for the next appends of a connection. The client has one gRPC client for each connection. */
const currentCalls = new WeakMap<StreamsClient, SharedCall>();

/**
 * Sends an append.
 *
 * @param request complete except for the correlation id
 * @param expiry aborted if the caller no longer waits. If the call never had a response, the connection then has no
 *   shared call for a minute
 * @throws {Error} if the connection has no shared call, or the call fails, perhaps because of another append
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
  /** Called if the next appends must not use the call. The appends of the call continue. */
  retire(): void;
  /** Called if an append has reached its time limit, and the call has never had a response. */
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
