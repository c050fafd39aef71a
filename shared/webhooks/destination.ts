import { isIP } from "node:net";
import { withTimeout } from "../runtime/timeout.ts";
import { isLoopback, isPublicUnicast } from "./public-address.ts";
import { resolveHost } from "./resolve-host.ts";

/**
 * Messages for each reason to refuse a destination. `lookup_failed` can be temporary. All other reasons are faults of
 * the URL or of its DNS records.
 */
const faultMessages = {
  malformed_url: "The URL is malformed or too long.",
  scheme_not_allowed: "The URL must start with https.",
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
  /** Function that looks up host names. If absent, DNS is used. */
  lookup?: ((host: string) => Promise<readonly string[]>) | undefined;
}

/** A checked destination. The sender must connect only to the checked address. */
export interface SafeDestination {
  url: URL;
  address: string;
}

const MAX_URL_LENGTH = 2_048;
const ALLOWED_PORTS = new Set(["", "443", "8443"]);

/** Matches host names that are never public, even if a resolver returns a public address. */
const PRIVATE_HOST_NAME = /(^|\.)(localhost|localdomain|local|internal|intranet|lan|home|corp|onion|arpa)$/;

/** Matches host names with at least two labels of letters, digits and inner hyphens, without a trailing dot. */
const PUBLIC_HOST_NAME = /^(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** Time limit for looking up a host name. Milliseconds. */
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
    return host === "localhost" ? { url, address: "127.0.0.1" } : { url, address: host };
  }
  if (url.protocol !== "https:") throw new UnsafeDestinationError("scheme_not_allowed");
  if (!ALLOWED_PORTS.has(url.port)) throw new UnsafeDestinationError("port_not_allowed");
  if (isAddress) return { url, address: requirePublicAddresses([host])[0] };
  if (PRIVATE_HOST_NAME.test(host) || !PUBLIC_HOST_NAME.test(host)) {
    throw new UnsafeDestinationError("host_not_allowed");
  }
  const addresses = requirePublicAddresses(await lookUpAddresses(host, options));
  // An IPv4 address is preferred, because not every machine has IPv6 connectivity.
  return { url, address: addresses.find((address) => isIP(address) === 4) ?? addresses[0] };
}

/**
 * Parses a URL as the sender does (WHATWG URL standard), and checks its text. Refuses white space, backslashes and
 * control characters, because parsers treat them differently. Parsing normalizes capitals, full-width letters and IPv4
 * notations, and later checks use the normalized form.
 */
function parseUrl(text: string): URL {
  if (text.length > MAX_URL_LENGTH || /[\s\\\p{Cc}]/u.test(text) || !URL.canParse(text)) {
    throw new UnsafeDestinationError("malformed_url");
  }
  const url = new URL(text);
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
    return await withTimeout(LOOKUP_TIMEOUT_MS, options.lookup?.(host) ?? resolveHost(host));
  } catch (error) {
    throw new UnsafeDestinationError("lookup_failed", { cause: error });
  }
}
