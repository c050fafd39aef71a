import ipaddr from "ipaddr.js";

/**
 * Returns the key of an address for rate limits: the IPv4 address, or the /64 network of an IPv6 address, because one
 * host usually owns a whole /64 network. Invalid text is `unknown`.
 */
export function callerAddress(ip: string): string {
  if (!ipaddr.isValid(ip)) return "unknown";
  const address = ipaddr.process(ip);
  if (!(address instanceof ipaddr.IPv6)) return address.toString();
  const network = address.parts.slice(0, 4).map((part) => part.toString(16));
  return `${network.join(":")}::/64`;
}
