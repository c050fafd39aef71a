import type { LookupFunction } from "node:net";
import { Pool } from "undici";
import type { SafeDestination } from "../../shared/webhooks/destination.ts";

/** Connections to receivers, kept open between deliveries. */
export interface Connections {
  /** Runs something with a pool that connects to the checked address and to no other. */
  use<T>(destination: SafeDestination, run: (pool: Pool) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

interface Kept {
  pool: Pool;
  users: number;
  usedAt: number;
}

/** Pools nobody uses are closed when there are more than this, oldest first, or after this long. Milliseconds. */
const MOST_KEPT = 200;
const KEPT_FOR = 30_000;

/** Connections to one address; several endpoints may share it. */
const CONNECTIONS = 64;

const MAXIMUM_HEADERS = 16_384;

/**
 * Pools of HTTP connections by origin and address. TLS still asks for the host's own certificate: only the look-up
 * is replaced. Redirects are not followed, and time limits are the caller's.
 */
export function createConnections(): Connections {
  const kept = new Map<string, Kept>();
  const evict = () => {
    const idle = [...kept].filter(([, { users }]) => users === 0);
    const old = Date.now() - KEPT_FOR;
    let surplus = kept.size - MOST_KEPT;
    for (const [key, entry] of idle) {
      if (surplus <= 0 && entry.usedAt > old) continue;
      surplus -= 1;
      kept.delete(key);
      // Nobody uses it: there is nothing to fail.
      void entry.pool.destroy();
    }
  };
  const timer = setInterval(evict, KEPT_FOR).unref();
  return {
    async use(destination, run) {
      const key = `${destination.url.origin} ${destination.address}`;
      const entry = kept.get(key) ?? { pool: createPool(destination), users: 0, usedAt: 0 };
      entry.users += 1;
      // Deleted and set again, so that the map's order is the order of use.
      kept.delete(key);
      kept.set(key, entry);
      try {
        return await run(entry.pool);
      } finally {
        entry.users -= 1;
        entry.usedAt = Date.now();
        if (kept.size > MOST_KEPT) evict();
      }
    },
    async close() {
      clearInterval(timer);
      await Promise.all([...kept.values()].map(({ pool }) => pool.destroy()));
      kept.clear();
    },
  };
}

function createPool({ url, address, family }: SafeDestination): Pool {
  const lookup: LookupFunction = (_host, options, callback) => {
    if (options.all) callback(null, [{ address, family }]);
    else callback(null, address, family);
  };
  return new Pool(url.origin, {
    connections: CONNECTIONS,
    pipelining: 1,
    connect: { lookup },
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: MAXIMUM_HEADERS,
    allowH2: false,
  });
}
