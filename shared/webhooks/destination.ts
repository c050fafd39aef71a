import { Resolver } from "node:dns/promises";
import { isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { withTimeout } from "../runtime/timeout.ts";

/**
 * Messages for each reason to refuse a destination. `lookup_failed` can be temporary. All other reasons are faults of
 * the URL or of its DNS records.
 */
const faultMessages = {
  malformed_url: "The URL is malformed, or longer than 2,048 characters with percent encoding.",
  scheme_not_allowed: "The URL of a public host must start with https.",
  user_info_not_allowed: "The URL must not contain a user name or password.",
  fragment_not_allowed: "The URL must not contain a fragment.",
  port_not_allowed: "The port must be 443 or 8443.",
  host_not_allowed: "The host must be a public name.",
  address_not_public: "The host has an address that is not public.",
  lookup_failed: "The host name could not be resolved.",
};

export type DestinationFault = keyof typeof faultMessages;

/** Thrown if webhooks must not be sent to a destination. The code is stable and public. */
export class UnsafeDestinationError extends Error {
  override readonly name = "UnsafeDestinationError";
  readonly code: DestinationFault;

  constructor(code: DestinationFault, options: { message?: string; cause?: unknown } = {}) {
    super(options.message ?? faultMessages[code], options);
    this.code = code;
  }
}

export interface DestinationOptions {
  /** If true, loopback destinations are allowed with plain http and any port. Only for a local stack. */
  allowsLoopback: boolean;
  /** DNS servers as `address:port`. If absent, the machine's DNS servers are used. */
  dnsServers?: readonly string[] | undefined;
  /** Function that looks up host names. If absent, DNS is used. */
  lookup?: ((host: string) => Promise<readonly string[]>) | undefined;
}

/** A checked destination. The sender must connect only to the checked addresses. */
export interface SafeDestination {
  url: URL;
  /** In the order in which the sender tries them. */
  addresses: readonly [string, ...string[]];
}

/** Maximum length in characters of a URL as given, and of the normalized URL, which is checked before each attempt. */
export const MAX_URL_LENGTH = 2_048;
const ALLOWED_PORTS = new Set(["", "443", "8443"]);

/** Matches host names that are never public, even if a resolver returns a public address. */
const PRIVATE_HOST_NAME = /(^|\.)(localhost|localdomain|local|internal|intranet|lan|home|corp|onion|arpa)$/;

/** Matches host names with at least two labels of letters, digits and inner hyphens, without a trailing dot. */
const PUBLIC_HOST_NAME = /^(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

const LOOKUP_TIMEOUT_MS = 5_000;

/**
 * Checks that webhooks may be sent to a URL. The URL must have https, port 443 or 8443, no user info and no fragment.
 * The host must be public and have only public unicast addresses. The check runs at registration and before each
 * attempt, because DNS can change.
 *
 * @throws {UnsafeDestinationError}
 */
export async function checkDestination(urlText: string, options: DestinationOptions): Promise<SafeDestination> {
  const url = parseUrl(urlText);
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const isAddress = isIP(host) !== 0;
  const isOwnMachine = host === "localhost" || (isAddress && isLoopback(host));
  if (options.allowsLoopback && isOwnMachine) {
    // The name localhost is not resolved, because it always means this machine.
    return { url, addresses: host === "localhost" ? ["127.0.0.1", "::1"] : [host] };
  }
  if (url.protocol !== "https:") throw new UnsafeDestinationError("scheme_not_allowed");
  if (!ALLOWED_PORTS.has(url.port)) throw new UnsafeDestinationError("port_not_allowed");
  if (isAddress) return { url, addresses: requirePublicAddresses([host]) };
  if (PRIVATE_HOST_NAME.test(host) || !PUBLIC_HOST_NAME.test(host)) {
    throw new UnsafeDestinationError("host_not_allowed");
  }
  const addresses = await lookUpAddresses(host, options);
  // IPv4 addresses come first, because not every machine has IPv6 connectivity.
  const sortedAddresses = addresses.toSorted((left, right) => isIP(left) - isIP(right));
  return { url, addresses: requirePublicAddresses(sortedAddresses) };
}

/**
 * Parses a URL as the sender does (WHATWG URL standard), and checks its text. Refuses white space, backslashes and
 * control characters, because parsers treat them differently. Parsing normalizes capitals, full-width letters and IPv4
 * notations, and later checks use the normalized form.
 */
function parseUrl(text: string): URL {
  if (/[\s\\\p{Cc}]/u.test(text) || !URL.canParse(text)) throw new UnsafeDestinationError("malformed_url");
  const url = new URL(text);
  if (url.href.length > MAX_URL_LENGTH) throw new UnsafeDestinationError("malformed_url");
  if (url.protocol !== "https:" && url.protocol !== "http:") {
    throw new UnsafeDestinationError("scheme_not_allowed");
  }
  if (url.username !== "" || url.password !== "") {
    throw new UnsafeDestinationError("user_info_not_allowed");
  }
  if (text.includes("#")) {
    throw new UnsafeDestinationError("fragment_not_allowed");
  }
  return url;
}

/**
 * Requires that a host has at least one address, and that all its addresses are public. If even one address is not
 * public, the host is refused, because a client could connect to that address.
 */
function requirePublicAddresses(addresses: readonly string[]): [string, ...string[]] {
  const [address, ...otherAddresses] = addresses;
  if (address === undefined) throw new UnsafeDestinationError("lookup_failed", { message: "The host has no address." });
  if (!addresses.every(isPublicUnicast)) {
    throw new UnsafeDestinationError("address_not_public");
  }
  return [address, ...otherAddresses];
}

async function lookUpAddresses(host: string, options: DestinationOptions): Promise<readonly string[]> {
  try {
    return await withTimeout(LOOKUP_TIMEOUT_MS, options.lookup?.(host) ?? resolveHost(host, options.dnsServers));
  } catch (error) {
    throw new UnsafeDestinationError("lookup_failed", { cause: error });
  }
}

/**
 * The only IPv6 block from which public addresses are assigned. The library reports special blocks within it
 * separately.
 */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR("2000::/3");

/** The block of the former 6bone, returned to IANA in 2006 (RFC 3701). The library treats the block as unicast. */
const SIXBONE = ipaddr.IPv6.parseCIDR("3ffe::/16");

/** Azure's platform address. The address is in a public range, but reaches the host of an Azure virtual machine. */
const PLATFORM_ADDRESSES = new Set(["168.63.129.16"]);

/**
 * Returns true if an address is an ordinary public unicast address. Returns false for every block of IANA's
 * special-purpose registries (RFC 6890 and its updates). This includes blocks that are publicly reachable, such as
 * AS112, because no partner runs a web server there. Returns false for all addresses that embed another address
 * (IPv4-mapped, NAT64, 6to4, Teredo), and for addresses outside of the assigned unicast ranges.
 *
 * @param address an IPv4 address of four decimal parts or an IPv6 address, without brackets
 */
export function isPublicUnicast(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsedAddress = ipaddr.parse(address);
  if (parsedAddress.range() !== "unicast") return false;
  return parsedAddress instanceof ipaddr.IPv6
    ? parsedAddress.match(GLOBAL_UNICAST) && !parsedAddress.match(SIXBONE)
    : !PLATFORM_ADDRESSES.has(parsedAddress.toString());
}

/** Returns true if an address is a loopback address: 127.0.0.0/8 or ::1. */
export function isLoopback(address: string): boolean {
  return ipaddr.isValid(address) && ipaddr.parse(address).range() === "loopback";
}

const QUERY_TIMEOUT_MS = 1_500;
const MAX_TRIES = 2;

/**
 * Time to wait for the second address family after the addresses of the first family have arrived: the resolution delay
 * of RFC 8305. It is longer than the 50 ms of the RFC, so that addresses that arrive late are also checked.
 */
const RESOLUTION_DELAY_MS = 200;

/**
 * Resolves a host name to its IPv4 and IPv6 addresses with DNS queries. The hosts file is ignored, because it contains
 * no public names. `getaddrinfo` is not used, because one slow name server could block its few threads for all callers.
 * After the first family's addresses have arrived, the function waits up to 200 ms for the second family.
 *
 * @param servers DNS servers as `address:port`. If absent, the machine's DNS servers
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
