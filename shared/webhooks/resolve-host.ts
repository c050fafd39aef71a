import { Resolver } from "node:dns/promises";

/** Time limit for one query to one name server. Milliseconds. */
const QUERY_TIMEOUT_MS = 1_500;
const MAX_TRIES = 2;

/**
 * Time to wait for the second address family after the first family's addresses have arrived: the resolution delay of
 * RFC 8305. The RFC suggests 50 ms. With a longer delay, the caller can also check addresses that arrive late.
 * Milliseconds.
 */
const RESOLUTION_DELAY_MS = 200;

/**
 * Resolves a host name to its IPv4 and IPv6 addresses with DNS queries. The hosts file is ignored, because it
 * contains no public names. `getaddrinfo` is not used, because one slow name server could block its few threads for
 * all callers. After the first family's addresses have arrived, the function waits up to 200 ms for the second family.
 * @param servers name servers as `address:port`. If absent, the machine's name servers
 *
 * @returns all addresses that arrived
 * @throws the resolver's error if neither family has an address
 */
export async function resolveHost(host: string, servers?: readonly string[]): Promise<string[]> {
  const resolver = new Resolver({ timeout: QUERY_TIMEOUT_MS, tries: MAX_TRIES });
  if (servers) resolver.setServers(servers);
  let delayTimer: NodeJS.Timeout | undefined;
  const resolveFamily = async (family: 4 | 6) => {
    const addresses = await (family === 4 ? resolver.resolve4(host) : resolver.resolve6(host));
    delayTimer ??= setTimeout(() => resolver.cancel(), RESOLUTION_DELAY_MS);
    return addresses;
  };
  const familyResults = await Promise.allSettled([resolveFamily(4), resolveFamily(6)]);
  clearTimeout(delayTimer);
  const addresses = familyResults.flatMap((result) => (result.status === "fulfilled" ? result.value : []));
  const [ipv4Result] = familyResults;
  if (addresses.length === 0 && ipv4Result.status === "rejected") throw ipv4Result.reason;
  return addresses;
}
