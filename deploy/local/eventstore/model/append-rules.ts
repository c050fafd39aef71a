/**
 * EventStoreDB's rules for expected revisions and idempotent retries, as pure functions: they decide whether an append is
 * written, is a retry of a stored append, or is refused.
 */

/** Special expected revisions. The values are negative, so they are never equal to a revision. */
export const NO_STREAM = -1;
export const ANY = -2;
export const STREAM_EXISTS = -4;

/** The last revision of a stream, NO_STREAM if it has no event, and whether it was deleted. */
export interface StreamEnd {
  readonly last: number;
  readonly tombstoned: boolean;
  readonly softDeleted: boolean;
}

/** Earlier writes to a stream, as the rules need them. */
export interface History {
  /** Revision at which an event with this id was recently written; undefined if none is known. */
  recent(id: string): number | undefined;
  /** Id of the event at a revision. */
  idAt(revision: number): string | undefined;
  /** Tells whether the stream has metadata. A stream with metadata exists even without events. */
  hasMetadata(): boolean;
}

export type Decision =
  | { readonly kind: "write" }
  | { readonly kind: "already-written"; readonly revision: number }
  | { readonly kind: "wrong-revision"; readonly current: number }
  | { readonly kind: "deleted" };

const WRITE: Decision = { kind: "write" };

/** Decides an append of events with these ids. A deletion is decided like an append of one new event. */
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

/** Decides an append without an exact revision: it is a retry if all ids are known, new if the first is unknown. */
function decideByRecentIds(ids: readonly string[], stream: StreamEnd, history: History): Decision {
  let revision = -1;
  for (const [index, id] of ids.entries()) {
    const found = history.recent(id);
    if (found === undefined) return index === 0 ? WRITE : wrongRevision(stream);
    revision = found;
  }
  return ids.length === 0 ? WRITE : { kind: "already-written", revision };
}

/** Decides an append before the end of the stream: it is a retry if the stored events after the revision have its ids. */
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
