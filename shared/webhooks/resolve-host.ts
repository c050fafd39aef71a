import { Resolver } from "node:dns/promises";

export interface ResolvedAddress {
  address: string;
  family: number;
}

/** Time limit for one query to one name server, and the number of tries. Milliseconds. */
const QUERY_TIMEOUT_MS = 1_500;
const MAX_TRIES = 2;

/**
 * Wait for the other address family after one family has answered with addresses: the resolution delay of RFC 8305.
 * That document suggests 50 ms. Here it is longer, so that the addresses of a slow answer are checked too.
 * Milliseconds.
 */
const RESOLUTION_DELAY_MS = 200;

/**
 * Resolves a name to its IPv4 and IPv6 addresses, by DNS only, because the hosts file has no public names. It does not use
 * getaddrinfo: one slow name server could block its few threads for all callers.
 *
 * Once one family has answered with addresses, the other family has 200 ms left.
 *
 * @param servers name servers as `address:port`. If absent, those of the machine
 * @returns all addresses that arrived
 * @throws the resolver's error if neither family has an address
 */
export async function resolveHost(host: string, servers?: readonly string[]): Promise<ResolvedAddress[]> {
  const resolver = new Resolver({ timeout: QUERY_TIMEOUT_MS, tries: MAX_TRIES });
  if (servers) resolver.setServers(servers);
  let delay: NodeJS.Timeout | undefined;
  const resolve = async (family: 4 | 6) => {
    const addresses = await (family === 4 ? resolver.resolve4(host) : resolver.resolve6(host));
    delay ??= setTimeout(() => resolver.cancel(), RESOLUTION_DELAY_MS);
    return addresses.map((address) => ({ address, family }));
  };
  const families = await Promise.allSettled([resolve(4), resolve(6)]);
  clearTimeout(delay);
  const found = families.flatMap((family) => (family.status === "fulfilled" ? family.value : []));
  const [v4] = families;
  if (found.length === 0 && v4.status === "rejected") throw v4.reason;
  return found;
}
