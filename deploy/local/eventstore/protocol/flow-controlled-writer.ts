/**
 * Flow control of reads: sends messages to gRPC, and waits if the client is slow.
 *
 * gRPC's high-water mark is 16 messages. A wait after every 16 messages is slow, so this writer has higher limits. They
 * limit the memory that a client can occupy if it stops reading.
 */
import type { ReadReq } from "@eventstore/db-client/generated/streams_pb.js";
import type { ServerWritableStream } from "@grpc/grpc-js";
import { MAX_BYTES_AHEAD, MAX_MESSAGES_AHEAD } from "../model/limits.ts";

export type ReadCall = ServerWritableStream<ReadReq, Uint8Array>;

export class FlowControlledWriter {
  readonly #call: ReadCall;
  #bytesAhead = 0;
  #closed = false;
  #wake: () => void = () => undefined;

  constructor(call: ReadCall) {
    this.#call = call;
    call.on("drain", () => this.#wake());
    for (const event of ["cancelled", "close", "error"]) call.on(event, () => this.close());
  }

  /** True if the client has disconnected. */
  get closed(): boolean {
    return this.#closed;
  }

  /** Sends a message. Returns true if the caller must await `drained` before the next message. */
  send(message: Uint8Array): boolean {
    if (this.#closed) return false;
    if (this.#call.writableLength === 0) this.#bytesAhead = 0;
    this.#bytesAhead += message.length;
    this.#call.write(compact(message));
    if (!this.#call.writableNeedDrain) return false;
    return this.#call.writableLength >= MAX_MESSAGES_AHEAD || this.#bytesAhead >= MAX_BYTES_AHEAD;
  }

  /** Waits until gRPC's queue is empty or the client disconnects. */
  async drained(): Promise<void> {
    // The loop is necessary, because a commit also wakes the writer.
    while (!this.#closed && this.#call.writableNeedDrain) await this.#sleep();
  }

  /** Waits until a condition is true or the client disconnects. Checks the condition after each call of `wake`. */
  async until(ready: () => boolean): Promise<void> {
    while (!this.#closed && !ready()) await this.#sleep();
  }

  /** Makes `until` check its condition. */
  wake(): void {
    this.#wake();
  }

  /** Marks the client as disconnected. */
  close(): void {
    this.#closed = true;
    this.#wake();
  }

  #sleep(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }
}

/** Copies a message that is a small part of a large buffer. A queued view would keep the whole buffer in memory. */
function compact(message: Uint8Array): Uint8Array {
  const kept = message.buffer.byteLength;
  return kept > Buffer.poolSize && kept > 4 * message.length ? Buffer.from(message) : message;
}
