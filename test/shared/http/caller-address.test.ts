import { expect } from "chai";
import { callerAddress } from "../../../shared/http/caller-address.ts";

describe("caller address", () => {
  const same: [string, string, string][] = [
    ["an IPv4 address is itself", "192.0.2.7", "192.0.2.7"],
    ["one mapped into IPv6 is the same caller", "::ffff:192.0.2.7", "192.0.2.7"],
    ["an IPv6 address is its network of 64 bits", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["however it is written", "2001:0DB8:0001:0002::ffff", "2001:db8:1:2::/64"],
    ["loopback is a network too", "::1", "0:0:0:0::/64"],
    ["a zone changes nothing", "fe80::1%eth0", "fe80:0:0:0::/64"],
    ["no address is unknown", "", "unknown"],
    ["a text is unknown, whatever its length", "x".repeat(10_000), "unknown"],
    ["a list is unknown", "192.0.2.7, 192.0.2.8", "unknown"],
  ];
  for (const [what, ip, caller] of same) {
    it(what, () => {
      expect(callerAddress(ip)).to.equal(caller);
    });
  }
});
