/**
 * When an append is written, when it counts as written already, and when it is refused: EventStoreDB's rules
 * for expected revisions and idempotent retries, as pure functions.
 */

/** Expected revisions that are no number; the values never collide with a revision. */
export const NO_STREAM = -1;
export const ANY = -2;
export const STREAM_EXISTS = -4;

/** The last revision of a stream, NO_STREAM where it has none, and how it was deleted, if it was. */
export interface StreamEnd {
  readonly last: number;
  readonly tombstoned: boolean;
  readonly softDeleted: boolean;
}

/** What was written before, as far as the rules ask. */
export interface History {
  /** Revision at which an event id was recently written to this stream. */
  recent(id: string): number | undefined;
  /** Id of the event at a revision of this stream. */
  idAt(revision: number): string | undefined;
  /** Whether the stream has metadata, which makes it exist even without events. */
  hasMetadata(): boolean;
}

export type Decision =
  | { readonly kind: "write" }
  | { readonly kind: "already-written"; readonly revision: number }
  | { readonly kind: "wrong-revision"; readonly current: number }
  | { readonly kind: "deleted" };

const WRITE: Decision = { kind: "write" };

/** Decides on a write of events with these ids. A deletion is decided as an append of one new id. */
export function decideAppend(
  expected: number,
  ids: readonly string[],
  stream: StreamEnd,
  history: History,
): Decision {
  if (stream.tombstoned) return { kind: "deleted" };
  if (expected === STREAM_EXISTS) {
    if (stream.softDeleted) return { kind: "deleted" };
    if (stream.last < 0 && !history.hasMetadata()) return wrongRevision(stream);
  }
  if (expected === ANY || expected === STREAM_EXISTS) return decideByRecentIds(ids, stream, history);
  if (expected < stream.last) return decideByStoredIds(expected, ids, stream, history);
  return expected === stream.last ? WRITE : wrongRevision(stream);
}

/** Without a revision the ids decide: the first unknown one means new, all known means a retry. */
function decideByRecentIds(ids: readonly string[], stream: StreamEnd, history: History): Decision {
  let revision = -1;
  for (const [index, id] of ids.entries()) {
    const found = history.recent(id);
    if (found === undefined) return index === 0 ? WRITE : wrongRevision(stream);
    revision = found;
  }
  return ids.length === 0 ? WRITE : { kind: "already-written", revision };
}

/** Behind the end of the stream an append is a retry if the stored events after the revision have its ids. */
function decideByStoredIds(
  expected: number,
  ids: readonly string[],
  stream: StreamEnd,
  history: History,
): Decision {
  for (const [index, id] of ids.entries()) {
    if (history.idAt(expected + 1 + index) === id) continue;
    const recreates = index === 0 && expected === NO_STREAM && stream.softDeleted;
    return recreates ? WRITE : wrongRevision(stream);
  }
  if (ids.length === 0) return wrongRevision(stream);
  return { kind: "already-written", revision: expected + ids.length };
}

function wrongRevision(stream: StreamEnd): Decision {
  return { kind: "wrong-revision", current: stream.last };
}
