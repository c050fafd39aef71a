import { expect } from "chai";
import ipaddr from "ipaddr.js";
import { isPublicUnicast } from "../../../shared/webhooks/destination.ts";

/**
 * Address blocks that are not public: IANA's special-purpose registries, non-unicast blocks, and a cloud's platform.
 */
const SPECIAL_BLOCKS = [
  ["0.0.0.0/8", "this network"],
  ["10.0.0.0/8", "private use"],
  ["100.64.0.0/10", "shared address space"],
  ["127.0.0.0/8", "loopback"],
  ["168.63.129.16/32", "platform of Azure"],
  ["169.254.0.0/16", "link local"],
  ["172.16.0.0/12", "private use"],
  ["192.0.0.0/24", "IETF protocol assignments"],
  ["192.0.0.0/29", "IPv4 service continuity"],
  ["192.0.0.9/32", "Port Control Protocol anycast"],
  ["192.0.0.170/31", "NAT64 discovery"],
  ["192.0.2.0/24", "documentation"],
  ["192.31.196.0/24", "AS112"],
  ["192.52.193.0/24", "AMT"],
  ["192.88.99.0/24", "6to4 relay anycast"],
  ["192.168.0.0/16", "private use"],
  ["192.175.48.0/24", "AS112"],
  ["198.18.0.0/15", "benchmarking"],
  ["198.51.100.0/24", "documentation"],
  ["203.0.113.0/24", "documentation"],
  ["224.0.0.0/4", "multicast"],
  ["240.0.0.0/4", "reserved"],
  ["255.255.255.255/32", "limited broadcast"],
  ["::/128", "unspecified"],
  ["::1/128", "loopback"],
  ["::/96", "IPv4-compatible"],
  ["::ffff:0:0/96", "IPv4-mapped"],
  ["::ffff:0:0:0/96", "IPv4-translated"],
  ["64:ff9b::/96", "NAT64"],
  ["64:ff9b:1::/48", "local-use NAT64"],
  ["100::/64", "discard only"],
  ["100:0:0:1::/64", "dummy prefix"],
  ["2001::/23", "IETF protocol assignments"],
  ["2001::/32", "Teredo"],
  ["2001:1::1/128", "Port Control Protocol anycast"],
  ["2001:1::2/128", "TURN anycast"],
  ["2001:1::3/128", "DNS-SD anycast"],
  ["2001:2::/48", "benchmarking"],
  ["2001:3::/32", "AMT"],
  ["2001:4:112::/48", "AS112"],
  ["2001:10::/28", "ORCHID"],
  ["2001:20::/28", "ORCHIDv2"],
  ["2001:30::/28", "drone remote id"],
  ["2001:db8::/32", "documentation"],
  ["2002::/16", "6to4"],
  ["2620:4f:8000::/48", "AS112"],
  ["3ffe::/16", "former 6bone"],
  ["3fff::/20", "documentation"],
  ["4000::/3", "not assigned"],
  ["5f00::/16", "segment routing"],
  ["fc00::/7", "unique local"],
  ["fe80::/10", "link local"],
  ["fec0::/10", "site local"],
  ["ff00::/8", "multicast"],
] as const;

/** Returns the first address, a middle address and the last address of a block. */
function sampleAddresses(block: string): string[] {
  const [startAddress, prefixBits] = ipaddr.parseCIDR(block);
  const bytes = startAddress.toByteArray();
  const fillHostBits = (getByte: (index: number) => number) =>
    ipaddr
      .fromByteArray(
        bytes.map((byte, index) => {
          const hostBits = Math.min(8, Math.max(0, 8 * (index + 1) - prefixBits));
          const mask = 2 ** hostBits - 1;
          return (byte & ~mask) | (getByte(index) & mask);
        }),
      )
      .toString();
  return [fillHostBits(() => 0), fillHostBits((index) => 0x5a ^ index), fillHostBits(() => 0xff)];
}

describe("isPublicUnicast", () => {
  for (const [block, purpose] of SPECIAL_BLOCKS)
    it(`no address of ${block} (${purpose}) is public unicast`, () => {
      for (const address of sampleAddresses(block)) expect(isPublicUnicast(address), address).to.equal(false);
    });

  const publicAddresses = [
    "1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1 172.15.255.255",
    "172.32.0.0 192.0.1.0 192.0.3.0 198.17.255.255 198.20.0.0 223.255.255.255 2001:200::1",
    "2001:db7:ffff::1 2001:db9::1 2003::1 2400::1 2606:4700::1 2a00::1 2620:4f:7fff::1 2620:4f:8001::1",
    "2c0f:ffff::1 3ffd:ffff::1 3fff:1000::1",
  ].flatMap((line) => line.split(" "));
  for (const address of publicAddresses)
    it(`${address}, which is in no special block, is public unicast`, () => {
      expect(isPublicUnicast(address)).to.equal(true);
    });

  it("a text that is not an address is not public unicast", () => {
    for (const text of ["", "localhost", "[2606:4700::1]", "1.1.1.1:443"])
      expect(isPublicUnicast(text), text).to.equal(false);
  });
});
