import { expect } from "chai";
import { checkDestination, resolveHost, UnsafeDestinationError } from "../../../shared/webhooks/destination.ts";
import { type DnsReply, startDnsServer } from "../../support/dns-server.ts";
import { useResource } from "../../support/resources.ts";

const HOST_NAME = "hooks.partner.example";
const V4_REPLY: DnsReply = { addresses: ["93.184.216.34"] };
const V6_REPLY: DnsReply = { addresses: ["2606:4700::6810:84e5"] };

describe("resolving the name of a destination", () => {
  const dns = useResource(startDnsServer, "test");

  /**
   * Checks a host with the given DNS replies.
   *
   * @returns the permitted address or the error code, and the duration
   */
  const check = async (A: DnsReply, AAAA: DnsReply) => {
    dns.setReplies({ A, AAAA });
    const startedAtMs = performance.now();
    const lookup = (host: string) => resolveHost(host, [dns.address]);
    const outcome = await checkDestination(`https://${HOST_NAME}/`, { allowsLoopback: false, lookup }).then(
      ({ addresses }) => addresses[0],
      (error) => (error instanceof UnsafeDestinationError ? error.code : error),
    );
    return { outcome, elapsedMs: performance.now() - startedAtMs };
  };

  const quickCases: [string, DnsReply, DnsReply, string][] = [
    ["a name server that drops AAAA", V4_REPLY, "drop", "93.184.216.34"],
    ["a name server that drops A", "drop", V6_REPLY, "2606:4700::6810:84e5"],
    ["NXDOMAIN for AAAA only", V4_REPLY, "nxdomain", "93.184.216.34"],
    ["NXDOMAIN for A only", "nxdomain", V6_REPLY, "2606:4700::6810:84e5"],
    ["no AAAA record", V4_REPLY, { addresses: [] }, "93.184.216.34"],
    ["NXDOMAIN for both", "nxdomain", "nxdomain", "lookup_failed"],
    ["a response without addresses for both", { addresses: [] }, { addresses: [] }, "lookup_failed"],
  ];
  for (const [caseName, A, AAAA, expectedOutcome] of quickCases)
    it(`resolving a host with ${caseName} returns ${expectedOutcome} without a repeated query`, async () => {
      expect((await check(A, AAAA)).outcome).to.equal(expectedOutcome);
      // The resolver repeats a dropped query after 1.5 seconds, when the lookup has already ended.
      expect(dns.questions.sort()).to.deep.equal([`A ${HOST_NAME}`, `AAAA ${HOST_NAME}`]);
    });

  it("a lookup fails within the time limit if the name server drops all queries", async () => {
    const { outcome, elapsedMs } = await check("drop", "drop");
    expect(outcome).to.equal("lookup_failed");
    expect(elapsedMs).to.be.within(1_400, 10_000);
  });

  it("if one address family has no address, the lookup waits for a late response for the other family", async () => {
    const { outcome } = await check({ addresses: [] }, { ...V6_REPLY, delayMs: 400 });
    expect(outcome).to.equal("2606:4700::6810:84e5");
  });

  const lateCases: [string, DnsReply, DnsReply][] = [
    ["AAAA", V4_REPLY, { addresses: ["fd00::1"], delayMs: 5 }],
    ["A", { addresses: ["10.0.0.1"], delayMs: 5 }, V6_REPLY],
  ];
  for (const [type, A, AAAA] of lateCases)
    it(`a private address in a late ${type} response is refused, even if another response has a public address`, async () => {
      expect((await check(A, AAAA)).outcome).to.equal("address_not_public");
    });

  it("a private address among several addresses is refused", async () => {
    const mixedReply = { addresses: ["93.184.216.34", "192.168.0.1"] };
    expect((await check(mixedReply, "drop")).outcome).to.equal("address_not_public");
  });
});
