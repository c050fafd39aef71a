/**
 * EventStoreDB's rules for expected revisions and idempotent retries, as pure functions. The rules decide whether to
 * write an append, to recognise it as a retry of a stored append, or to refuse it.
 */

/** Special values of an expected revision. They are negative and therefore differ from all real revisions. */
export const NO_STREAM = -1;
export const ANY = -2;
export const STREAM_EXISTS = -4;

/** The part of a stream's state that the append rules use. */
export interface AppendTarget {
  /** NO_STREAM if the stream has no events. */
  readonly lastRevision: number;
  readonly isTombstoned: boolean;
  readonly isSoftDeleted: boolean;
}

/** Lookups of a stream's earlier events. The append rules use them to recognise retries. */
export interface StreamHistory {
  /** Undefined if the id is not among the recently written events. */
  findRecentRevision(id: string): number | undefined;
  findEventId(revision: number): string | undefined;
  /** Returns true if the stream has metadata. A stream with metadata exists even if it has no events. */
  hasMetadata(): boolean;
}

type Decision =
  | { readonly kind: "write" }
  | { readonly kind: "already-written"; readonly revision: number }
  | { readonly kind: "wrong-revision"; readonly currentRevision: number }
  | { readonly kind: "deleted" };

const WRITE_DECISION: Decision = { kind: "write" };

/** Applies the rules to an append. A deletion counts as an append of one new event. */
export function decideAppend(
  expectedRevision: number,
  ids: readonly string[],
  stream: AppendTarget,
  history: StreamHistory,
): Decision {
  if (stream.isTombstoned) {
    // An append without events only checks the stream, and a tombstoned stream does not exist.
    const isCheck = ids.length === 0 && (expectedRevision === ANY || expectedRevision === NO_STREAM);
    return isCheck ? WRITE_DECISION : { kind: "deleted" };
  }
  if (expectedRevision === STREAM_EXISTS) {
    if (stream.isSoftDeleted) return { kind: "deleted" };
    if (stream.lastRevision < 0 && !history.hasMetadata()) return refuseRevision(stream);
  }
  if (expectedRevision === ANY || expectedRevision === STREAM_EXISTS) return decideByRecentIds(ids, stream, history);
  if (expectedRevision < stream.lastRevision) return decideByStoredIds(expectedRevision, ids, stream, history);
  return expectedRevision === stream.lastRevision ? WRITE_DECISION : refuseRevision(stream);
}

/**
 * Applies the rules for appends without an exact revision. If all ids are known, the append is a retry. If the first id
 * is unknown, the append is written. Otherwise, it is refused.
 */
function decideByRecentIds(ids: readonly string[], stream: AppendTarget, history: StreamHistory): Decision {
  let revision = -1;
  for (const [index, id] of ids.entries()) {
    const recentRevision = history.findRecentRevision(id);
    if (recentRevision === undefined) return index === 0 ? WRITE_DECISION : refuseRevision(stream);
    revision = recentRevision;
  }
  return ids.length === 0 ? WRITE_DECISION : { kind: "already-written", revision };
}

/**
 * Applies the rules for appends that expect a revision before the stream's last revision. If the events stored after
 * the expected revision have the append's ids, the append is a retry.
 */
function decideByStoredIds(
  expectedRevision: number,
  ids: readonly string[],
  stream: AppendTarget,
  history: StreamHistory,
): Decision {
  const isRecreation = expectedRevision === NO_STREAM && stream.isSoftDeleted;
  for (const [index, id] of ids.entries()) {
    if (history.findEventId(expectedRevision + 1 + index) === id) continue;
    return index === 0 && isRecreation ? WRITE_DECISION : refuseRevision(stream);
  }
  if (ids.length === 0) return isRecreation ? WRITE_DECISION : refuseRevision(stream);
  return { kind: "already-written", revision: expectedRevision + ids.length };
}

function refuseRevision(stream: AppendTarget): Decision {
  return { kind: "wrong-revision", currentRevision: stream.lastRevision };
}
