interface FirstUse {
  readonly stream: number;
  readonly revision: number;
}

/** The first stream and revision of each event id that a sequence has written. */
export class KnownIds {
  readonly #firstUses = new Map<string, FirstUse>();

  /** Adds the ids of an append that was written. `lastRevision` is the revision of the last id. */
  add(stream: number, ids: readonly string[], lastRevision: number): void {
    const firstRevision = lastRevision - ids.length + 1;
    for (const [index, id] of ids.entries()) {
      if (!this.#firstUses.has(id)) this.#firstUses.set(id, { stream, revision: firstRevision + index });
    }
  }

  /**
   * Returns true if a stream contains all ids, and the last id long before the first one. EventStoreDB never answers
   * such an append if it expects no exact revision, because it fails to create the answer.
   */
  hasReversedIds(stream: number, ids: readonly string[]): boolean {
    const uses = ids.map((id) => this.#firstUses.get(id));
    if (uses.some((use) => use?.stream !== stream)) return false;
    return (uses.at(-1)?.revision ?? 0) < (uses[0]?.revision ?? 0) - 1;
  }
}
