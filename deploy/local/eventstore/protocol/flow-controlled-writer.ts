/**
 * Flow control of reads: sends messages to gRPC, and waits if the client is slow.
 *
 * gRPC signals a full queue at 16 messages. Waiting after every 16 messages is slow, so this writer has higher limits.
 * The limits bound the memory that a client can occupy if it stops reading.
 */
import type { ReadReq } from "@eventstore/db-client/generated/streams_pb.js";
import type { ServerWritableStream } from "@grpc/grpc-js";

/** Maximum number of messages that gRPC queues for a slow client. At the limit, the read waits for the client. */
export const MAX_QUEUED_MESSAGES = 512;

/** Maximum size of the messages that gRPC queues for a slow client. At the limit, the read waits for the client. */
const MAX_QUEUED_BYTES = 4 * 1024 * 1024;

export type ReadCall = ServerWritableStream<ReadReq, Uint8Array>;

export class FlowControlledWriter {
  readonly #call: ReadCall;
  #queuedBytes = 0;
  #isClosed = false;
  #wake: () => void = () => undefined;

  constructor(call: ReadCall) {
    this.#call = call;
    call.on("drain", () => this.#wake());
    for (const event of ["cancelled", "close", "error"]) call.on(event, () => this.close());
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Returns true if the caller must await `waitForDrain` before the next message. */
  send(message: Uint8Array): boolean {
    if (this.#isClosed) return false;
    if (this.#call.writableLength === 0) this.#queuedBytes = 0;
    this.#queuedBytes += message.length;
    this.#call.write(copyIfSmall(message));
    if (!this.#call.writableNeedDrain) return false;
    return this.#call.writableLength >= MAX_QUEUED_MESSAGES || this.#queuedBytes >= MAX_QUEUED_BYTES;
  }

  /** Waits until gRPC's queue is empty or the client disconnects. */
  async waitForDrain(): Promise<void> {
    // The loop is necessary, because a commit also wakes the writer.
    while (!this.#isClosed && this.#call.writableNeedDrain) await this.#waitForWake();
  }

  /** Waits until the condition is true or the client disconnects. Checks again after each call of `wake`. */
  async waitUntil(isReady: () => boolean): Promise<void> {
    while (!this.#isClosed && !isReady()) await this.#waitForWake();
  }

  wake(): void {
    this.#wake();
  }

  close(): void {
    this.#isClosed = true;
    this.#wake();
  }

  #waitForWake(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }
}

/**
 * Copies a small message that is a view of a large buffer. Otherwise, the queue would keep the whole buffer in memory.
 */
function copyIfSmall(message: Uint8Array): Uint8Array {
  const keptBytes = message.buffer.byteLength;
  return keptBytes > Buffer.poolSize && keptBytes > 4 * message.length ? Buffer.from(message) : message;
}
