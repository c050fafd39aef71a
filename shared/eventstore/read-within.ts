import { finished, type Readable } from "node:stream";
import { LogUnavailableError, toLogError } from "./log.ts";

/** A read of the client. */
type StreamingRead<T> = Readable & AsyncIterable<T> & { cancel(): Promise<void> };

/**
 * Iterates over a read, up to a time limit. The client's own deadline has no effect if the server accepts connections
 * but never responds. The caller may stop early.
 *
 * @param timeoutMs time limit of the whole read
 * @throws {LogUnavailableError}
 */
export async function* readWithin<T>(timeoutMs: number, streamingRead: StreamingRead<T>): AsyncGenerator<T, void> {
  endAbandonedRead(streamingRead);
  const abortRead = () => streamingRead.destroy(new LogUnavailableError("the event log did not respond in time"));
  const timer = setTimeout(abortRead, timeoutMs);
  try {
    yield* streamingRead;
  } catch (error) {
    throw toLogError(error);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Ends the gRPC call of a read if the read is not read to its end, for example because its response arrives too late.
 * Otherwise, the client would keep the call forever, and its disposal would never end.
 */
function endAbandonedRead(streamingRead: StreamingRead<unknown>): void {
  streamingRead.once("pipe", (call: Readable) =>
    finished(streamingRead, (error) => {
      if (!error) return;
      call.unpipe().resume();
      void streamingRead.cancel();
    }),
  );
}
