/**
 * A map of limited size that drops entries which were not used recently. The most recently used half of the capacity is
 * always kept. Entries are in two generations, because moving an entry within a map at each use would be slow.
 */
export class LruMap<K, V> {
  readonly #generationSize: number;
  #recentEntries = new Map<K, V>();
  #olderEntries = new Map<K, V>();

  /** @param capacity maximum number of entries */
  constructor(capacity: number) {
    this.#generationSize = Math.ceil(capacity / 2);
  }

  get(key: K): V | undefined {
    const recentValue = this.#recentEntries.get(key);
    if (recentValue !== undefined) return recentValue;
    const olderValue = this.#olderEntries.get(key);
    if (olderValue !== undefined) this.set(key, olderValue);
    return olderValue;
  }

  entries(): [K, V][] {
    return [...this.#olderEntries, ...this.#recentEntries];
  }

  delete(key: K): void {
    this.#recentEntries.delete(key);
    this.#olderEntries.delete(key);
  }

  set(key: K, value: V): void {
    this.#olderEntries.delete(key);
    this.#recentEntries.set(key, value);
    if (this.#recentEntries.size < this.#generationSize) return;
    this.#olderEntries = this.#recentEntries;
    this.#recentEntries = new Map();
  }
}
