import ipaddr from "ipaddr.js";

/** The only IPv6 block from which public addresses are assigned. Special blocks within it have ranges of their own. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR("2000::/3");

/** The former 6bone, returned to IANA in 2006 (RFC 3701). The library does not know it. */
const SIXBONE = ipaddr.IPv6.parseCIDR("3ffe::/16");

/** Azure's platform address: in a public range, but answered by the host of a virtual machine. */
const PLATFORM_ADDRESSES = new Set(["168.63.129.16"]);

/**
 * Checks that an address is ordinary public unicast. Refuses every block of IANA's special-purpose registries (RFC 6890
 * and its updates), even reachable ones such as AS112, because no partner runs a web server there. Refuses
 * addresses that embed another address (IPv4-mapped, NAT64, 6to4, Teredo), whatever they embed, and addresses outside of
 * the assigned unicast ranges.
 *
 * @param address an IPv4 address of four decimal parts or an IPv6 address, without brackets
 */
export function isPublicUnicast(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.parse(address);
  if (parsed.range() !== "unicast") return false;
  return parsed instanceof ipaddr.IPv6
    ? parsed.match(GLOBAL_UNICAST) && !parsed.match(SIXBONE)
    : !PLATFORM_ADDRESSES.has(parsed.toString());
}

/** Checks that an address belongs to the machine itself: 127.0.0.0/8 or ::1. */
export function isLoopback(address: string): boolean {
  return ipaddr.isValid(address) && ipaddr.parse(address).range() === "loopback";
}
