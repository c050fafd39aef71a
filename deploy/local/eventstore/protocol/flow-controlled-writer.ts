/**
 * The way out of a read: hands messages to gRPC some way ahead of the reader, and no further.
 *
 * gRPC's own mark is 16 messages. Waiting at each of those is slow, so the writer runs on to a bound of its own
 * in messages and bytes; a reader that stops reading costs that much memory and no more.
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

  /** Whether the reader has gone. */
  get closed(): boolean {
    return this.#closed;
  }

  /** Sends a message. True says that `drained` must be awaited before the next one. */
  send(message: Uint8Array): boolean {
    if (this.#closed) return false;
    if (this.#call.writableLength === 0) this.#bytesAhead = 0;
    this.#bytesAhead += message.length;
    this.#call.write(compact(message));
    if (!this.#call.writableNeedDrain) return false;
    return this.#call.writableLength >= MAX_MESSAGES_AHEAD || this.#bytesAhead >= MAX_BYTES_AHEAD;
  }

  /** Resolves when the reader has caught up, or has gone. */
  async drained(): Promise<void> {
    // In a loop, since a commit wakes the writer too.
    while (!this.#closed && this.#call.writableNeedDrain) await this.#sleep();
  }

  /** Waits for `ready`, which says whether there is something to do, each time `wake` or the reader calls. */
  async until(ready: () => boolean): Promise<void> {
    while (!this.#closed && !ready()) await this.#sleep();
  }

  /** Makes `until` look again. */
  wake(): void {
    this.#wake();
  }

  /** Marks the reader as gone. */
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

/** A copy of a message that is a small part of a large buffer: while it waits, it would keep all of the buffer. */
function compact(message: Uint8Array): Uint8Array {
  const kept = message.buffer.byteLength;
  return kept > Buffer.poolSize && kept > 4 * message.length ? Buffer.from(message) : message;
}
