import ipaddr from "ipaddr.js";

/**
 * Whom an address stands for, as far as counting goes: an IPv4 address, or the /64 network of an IPv6 address, since
 * a host has one of those to itself. A text that is no address is `unknown`.
 */
export function callerAddress(ip: string): string {
  if (!ipaddr.isValid(ip)) return "unknown";
  const address = ipaddr.process(ip);
  if (!(address instanceof ipaddr.IPv6)) return address.toString();
  const network = address.parts.slice(0, 4).map((part) => part.toString(16));
  return `${network.join(":")}::/64`;
}
