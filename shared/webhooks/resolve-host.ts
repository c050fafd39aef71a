import { Resolver } from "node:dns/promises";

export interface ResolvedAddress {
  address: string;
  family: number;
}

/** One question to one name server takes this long at the most, and is asked this often. Milliseconds. */
const ANSWER_WITHIN = 1_500;
const TRIES = 2;

/**
 * The addresses of a name, by DNS alone: the machine's own hosts file names nothing that is public. It does not use
 * getaddrinfo, whose few threads one slow name server could hold for everybody.
 *
 * @param servers the name servers to ask, as `address:port`; the machine's where absent
 * @throws the resolver's error where neither family has an answer
 */
export async function resolveHost(host: string, servers?: readonly string[]): Promise<ResolvedAddress[]> {
  const resolver = new Resolver({ timeout: ANSWER_WITHIN, tries: TRIES });
  if (servers) resolver.setServers(servers);
  const [v4, v6] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
  const found = [
    ...(v4.status === "fulfilled" ? v4.value.map((address) => ({ address, family: 4 })) : []),
    ...(v6.status === "fulfilled" ? v6.value.map((address) => ({ address, family: 6 })) : []),
  ];
  if (found.length === 0 && v4.status === "rejected") throw v4.reason;
  return found;
}
