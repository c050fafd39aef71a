import net from "node:net";

type Done = (error?: Error | null) => void;

/**
 * A connection that goes on reading after the other side has stopped listening. A server may answer a large body
 * before it has read it, and hang up; an ordinary socket fails at its next write and loses the answer, which has
 * arrived already. Reading tells soon enough that the other side is gone.
 */
export class PatientSocket extends net.Socket {
  override _write(chunk: unknown, encoding: BufferEncoding, done: Done): void {
    super._write(chunk, encoding, unlessHungUp(done));
  }

  override _writev(chunks: { chunk: unknown; encoding: BufferEncoding }[], done: Done): void {
    super._writev?.(chunks, unlessHungUp(done));
  }
}

function unlessHungUp(done: Done): Done {
  return (error) => {
    const { code } = (error ?? {}) as NodeJS.ErrnoException;
    done(code === "EPIPE" || code === "ECONNRESET" ? null : error);
  };
}
