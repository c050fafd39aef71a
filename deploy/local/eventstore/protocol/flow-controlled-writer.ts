/**
 * Writes the messages of a read to gRPC, and waits if the reader is slow.
 *
 * gRPC's high-water mark is 16 messages. Waiting that often is slow, so this writer has higher limits in messages and
 * bytes. They bound the memory that a reader can take when it stops reading.
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

  /** True if the reader has disconnected. */
  get closed(): boolean {
    return this.#closed;
  }

  /** Sends a message. Returns true if the caller must await `drained` before the next one. */
  send(message: Uint8Array): boolean {
    if (this.#closed) return false;
    if (this.#call.writableLength === 0) this.#bytesAhead = 0;
    this.#bytesAhead += message.length;
    this.#call.write(compact(message));
    if (!this.#call.writableNeedDrain) return false;
    return this.#call.writableLength >= MAX_MESSAGES_AHEAD || this.#bytesAhead >= MAX_BYTES_AHEAD;
  }

  /** Resolves when the reader has caught up or disconnected. */
  async drained(): Promise<void> {
    // In a loop, because a commit also wakes the writer.
    while (!this.#closed && this.#call.writableNeedDrain) await this.#sleep();
  }

  /** Waits until `ready` returns true or the reader disconnects. Checks it after each `wake`. */
  async until(ready: () => boolean): Promise<void> {
    while (!this.#closed && !ready()) await this.#sleep();
  }

  /** Makes `until` check again. */
  wake(): void {
    this.#wake();
  }

  /** Marks the reader as disconnected. */
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

/** Copies a message that is a small part of a large buffer: while queued, it would keep the whole buffer in memory. */
function compact(message: Uint8Array): Uint8Array {
  const kept = message.buffer.byteLength;
  return kept > Buffer.poolSize && kept > 4 * message.length ? Buffer.from(message) : message;
}
