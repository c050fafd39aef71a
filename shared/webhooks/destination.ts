import { isIP } from "node:net";
import { within } from "../runtime/within.ts";
import { isLoopback, isPublicUnicast } from "./public-address.ts";
import { type ResolvedAddress, resolveHost } from "./resolve-host.ts";

/** Why a destination is refused. `lookup_failed` may pass by itself; the others are the URL's or its DNS's fault. */
export type DestinationFault =
  | "malformed_url"
  | "scheme_not_allowed"
  | "user_info_not_allowed"
  | "fragment_not_allowed"
  | "port_not_allowed"
  | "host_not_allowed"
  | "address_not_public"
  | "lookup_failed";

/** A webhook must not be sent there. The code is stable and may be shown. */
export class UnsafeDestination extends Error {
  override readonly name = "UnsafeDestination";
  readonly code: DestinationFault;

  constructor(code: DestinationFault, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** The addresses of a name. */
export type LookUp = (host: string) => Promise<readonly ResolvedAddress[]>;

export interface DestinationOptions {
  /** Whether the machine itself may be a destination, by plain http too and at any port. For one machine only. */
  allowLoopback: boolean;
  /** By DNS where absent. */
  lookup?: LookUp | undefined;
}

/** A destination that was judged safe, and the address that was judged: connect to that one and no other. */
export interface SafeDestination {
  url: URL;
  address: string;
}

const MAX_LENGTH = 2_048;
const PORTS = new Set(["", "443", "8443"]);

/** Names that never are somebody else's public server, whatever a resolver says of them. */
const PRIVATE_NAME = /(^|\.)(localhost|localdomain|local|internal|intranet|lan|home|corp|onion|arpa)$/;

/** At least two labels of letters, digits and inner hyphens; no trailing dot. */
const PUBLIC_NAME =
  /^(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** A name is looked up within this. Milliseconds. */
const LOOKUP_TIMEOUT_MS = 5_000;

/**
 * Judges whether webhooks may go to a URL: https to a public host at port 443 or 8443, no user info, no fragment, and
 * every address of the host public unicast. Asked at registration and again before each attempt, since DNS changes.
 *
 * @throws {UnsafeDestination}
 */
export async function checkDestination(text: string, options: DestinationOptions): Promise<SafeDestination> {
  const url = parse(text);
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const literal = isIP(host) !== 0;
  const ownMachine = host === "localhost" || (literal && isLoopback(host));
  if (options.allowLoopback && ownMachine) {
    // The name is not looked up: it stands for this machine, whoever answers for it.
    return host === "localhost" ? { url, address: "127.0.0.1" } : { url, address: host };
  }
  if (url.protocol !== "https:") throw new UnsafeDestination("scheme_not_allowed", "the URL must be https");
  if (!PORTS.has(url.port)) throw new UnsafeDestination("port_not_allowed", "the port must be 443 or 8443");
  if (literal) return { url, address: checked([host])[0] };
  if (PRIVATE_NAME.test(host) || !PUBLIC_NAME.test(host)) {
    throw new UnsafeDestination("host_not_allowed", "the host must be a public name");
  }
  const addresses = checked(await addressesOf(host, options.lookup ?? ((name) => resolveHost(name))));
  // IPv4 first: it is the family that every machine has a way to.
  return { url, address: addresses.find((address) => isIP(address) === 4) ?? addresses[0] };
}

/**
 * A URL as far as its text goes, read as the sender will read it (WHATWG). White space, backslashes and control
 * characters are refused, which that parser drops or turns round and others take otherwise. The rest that it mends,
 * such as capitals, full-width letters or an IPv4 address in other digits, is judged in its mended form.
 */
function parse(text: string): URL {
  if (text.length > MAX_LENGTH || /[\s\\\p{Cc}]/u.test(text) || !URL.canParse(text)) {
    throw new UnsafeDestination("malformed_url", "the URL is malformed or too long");
  }
  const url = new URL(text);
  if (url.protocol !== "https:" && url.protocol !== "http:") {
    throw new UnsafeDestination("scheme_not_allowed", "the URL must be https");
  }
  if (url.username !== "" || url.password !== "") {
    throw new UnsafeDestination("user_info_not_allowed", "the URL must not hold a user name or password");
  }
  if (text.includes("#")) {
    throw new UnsafeDestination("fragment_not_allowed", "the URL must not hold a fragment");
  }
  return url;
}

/** One address that is not public spoils them all: which one a client would take is chance. */
function checked(addresses: readonly string[]): [string, ...string[]] {
  const [first, ...others] = addresses;
  if (first === undefined) throw new UnsafeDestination("lookup_failed", "the host has no address");
  if (!addresses.every(isPublicUnicast)) {
    throw new UnsafeDestination("address_not_public", "the host is not at a public address");
  }
  return [first, ...others];
}

async function addressesOf(host: string, lookup: LookUp): Promise<string[]> {
  try {
    return (await within(LOOKUP_TIMEOUT_MS, lookup(host))).map(({ address }) => address);
  } catch (error) {
    throw new UnsafeDestination("lookup_failed", "the host could not be looked up", { cause: error });
  }
}
