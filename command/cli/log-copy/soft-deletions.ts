import { DomainError } from "../../../shared/domain/domain-error.ts";
import { getDescribedStream, isSoftDeletion, isTombstone, type StoredEvent } from "./stored-event.ts";

/**
 * Tracks the streams that are deleted, but not permanently. If such a stream is written to again, the server adds a
 * metadata event with a new id, so the copy would differ from the source.
 */
export class SoftDeletions {
  readonly #streams = new Set<string>();

  /** Records the effect of an event that both logs hold. */
  apply(event: StoredEvent): void {
    const describedStream = getDescribedStream(event.stream);
    if (describedStream === undefined) return;
    if (isSoftDeletion(event)) this.#streams.add(describedStream);
    else this.#streams.delete(describedStream);
  }

  /** @throws {DomainError} if the event would restore a deleted stream */
  requireCopyable(event: StoredEvent): void {
    const stream = getDescribedStream(event.stream) ?? event.stream;
    if (!this.#streams.has(stream) || isTombstone(event)) return;
    throw new DomainError(
      "stream_restored",
      `stream ${stream} was deleted, and an event of ${event.stream} was written later; a server records such a restoration with a new id, so the stream cannot be copied unchanged`,
    );
  }
}
