import ipaddr from "ipaddr.js";

/** The one block of IPv6 that is handed out to the public internet; what is special within it has a range of its own. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR("2000::/3");

/** Public by its range, but answered by the host of a virtual machine: Azure's platform address. */
const PLATFORM_ADDRESSES = new Set(["168.63.129.16"]);

/**
 * Whether an address is plain public unicast. Addresses that embed another (IPv4-mapped, NAT64, 6to4, Teredo) are not,
 * whatever they embed; nor are private, shared, link-local, documentation, benchmark, multicast and reserved ones.
 *
 * @param address an IPv4 address of four decimal parts or an IPv6 address, without brackets
 */
export function isPublicUnicast(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.parse(address);
  if (parsed.range() !== "unicast") return false;
  return parsed instanceof ipaddr.IPv6
    ? parsed.match(GLOBAL_UNICAST)
    : !PLATFORM_ADDRESSES.has(parsed.toString());
}

/** Whether an address is the machine's own: 127.0.0.0/8 or ::1. */
export function isLoopback(address: string): boolean {
  return ipaddr.isValid(address) && ipaddr.parse(address).range() === "loopback";
}
