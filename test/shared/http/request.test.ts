import { expect } from "chai";
import { findForwardedAddress, toCallerAddress } from "../../../shared/http/request.ts";

describe("forwarded address", () => {
  for (const [list, address] of [
    ["192.0.2.7", "192.0.2.7"],
    ["192.0.2.6, 192.0.2.7", "192.0.2.7"],
    ["192.0.2.6,192.0.2.7,", "192.0.2.7"],
    ["192.0.2.7 , \t, ,", "192.0.2.7"],
    ...[",", " , ", "", undefined].map((empty) => [empty, undefined]),
  ])
    it(`the forwarded address of ${JSON.stringify(list)} is ${address}`, () => {
      expect(findForwardedAddress({ "x-forwarded-for": list })).to.equal(address);
    });
});

describe("caller address", () => {
  const cases: [string, string, string][] = [
    ["the caller address of an IPv4 address is the address", "192.0.2.7", "192.0.2.7"],
    ["the caller address of an IPv4-mapped IPv6 address is the IPv4 address", "::ffff:192.0.2.7", "192.0.2.7"],
    ["the caller address of an IPv6 address is its /64 network", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    [
      "the caller address does not depend on the notation of an IPv6 address",
      "2001:0DB8:0001:0002::ffff",
      "2001:db8:1:2::/64",
    ],
    ["the caller address of IPv6 loopback is its /64 network", "::1", "0:0:0:0::/64"],
    ["the caller address of an IPv6 address ignores the zone", "fe80::1%eth0", "fe80:0:0:0::/64"],
    ["the caller address ignores the port of an IPv4 address", "198.51.100.7:51000", "198.51.100.7"],
    ["the caller address ignores brackets and port of an IPv6 address", "[2001:db8::1]:51002", "2001:db8:0:0::/64"],
    ["the caller address ignores brackets without a port", "[2001:db8::1]", "2001:db8:0:0::/64"],
    ["the caller address ignores the port of an IPv4-mapped address", "[::ffff:192.0.2.7]:1", "192.0.2.7"],
    ["the caller address of brackets without an address is unknown", "[]:1", "unknown"],
    ["the caller address of an empty text is unknown", "", "unknown"],
    ["the caller address of a long invalid text is unknown", "x".repeat(10_000), "unknown"],
    ["the caller address of a list of addresses is unknown", "192.0.2.7, 192.0.2.8", "unknown"],
  ];
  for (const [title, ip, callerAddress] of cases)
    it(title, () => {
      expect(toCallerAddress(ip)).to.equal(callerAddress);
    });
});
