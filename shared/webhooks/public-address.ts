import ipaddr from "ipaddr.js";

/**
 * The only IPv6 block from which public addresses are assigned. The library reports special blocks within it
 * separately.
 */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR("2000::/3");

/** The block of the former 6bone, returned to IANA in 2006 (RFC 3701). The library treats the block as unicast. */
const SIXBONE = ipaddr.IPv6.parseCIDR("3ffe::/16");

/** Azure's platform address. It is in a public range, but reaches the host of an Azure virtual machine. */
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
