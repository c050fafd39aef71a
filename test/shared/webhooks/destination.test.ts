import { expect } from "chai";
import fc from "fast-check";
import { z } from "zod";
import {
  checkDestination,
  type DestinationFault,
  UnsafeDestinationError,
} from "../../../shared/webhooks/destination.ts";

type Lookup = (host: string) => Promise<string[]>;

const createLookup =
  (...addresses: string[]): Lookup =>
  async () =>
    addresses;

const failingLookup: Lookup = async (host) => {
  throw new Error(`looked up ${host}`);
};

async function findFault(url: string, lookup: Lookup, allowsLoopback = false): Promise<DestinationFault | null> {
  try {
    await checkDestination(url, { allowsLoopback, lookup });
    return null;
  } catch (error) {
    if (!(error instanceof UnsafeDestinationError)) throw error;
    return error.code;
  }
}

const hostileUrls: [DestinationFault, ...string[]][] = [
  [
    "malformed_url",
    "",
    "hooks.example.com",
    "//hooks.example.com/",
    "https://",
    "https://[::1",
    "https://256.256.256.256/",
    "https://1.2.3.4.5/",
    "https://hooks.example.com:99999/",
    "https:\\\\hooks.example.com/",
    "https://hooks.example.com\\@127.0.0.1/",
    "https://hooks.example.com/a b",
    "https://hooks.example.com/\r\nHost: evil",
    " https://hooks.example.com/",
    "https://hooks\u0000.example.com/",
    "https://[fe80::1%25eth0]/",
    `https://hooks.example.com/${"a".repeat(2_048)}`,
    `https://hooks.example.com/${"你".repeat(240)}`,
    `https://hooks.example.com/?${"ü".repeat(700)}`,
  ],
  [
    "scheme_not_allowed",
    "http://hooks.example.com/",
    "http://127.0.0.1/",
    "http://8.8.8.8/",
    "ftp://hooks.example.com/",
    "file:///etc/passwd",
    "gopher://hooks.example.com/",
    "javascript:alert(1)",
    "data:text/plain,x",
    "ws://hooks.example.com/",
  ],
  [
    "user_info_not_allowed",
    "https://user@hooks.example.com/",
    "https://user:password@hooks.example.com/",
    "https://:password@hooks.example.com/",
    "https://hooks.example.com@127.0.0.1/",
    "https://hooks.example.com%2F@127.0.0.1/",
  ],
  ["fragment_not_allowed", "https://hooks.example.com/#part", "https://hooks.example.com/#"],
  [
    "port_not_allowed",
    "https://hooks.example.com:80/",
    "https://hooks.example.com:22/",
    "https://hooks.example.com:2113/",
    "https://8.8.8.8:5432/",
    "https://hooks.example.com:0/",
  ],
  [
    "host_not_allowed",
    "https://localhost/",
    "https://LOCALHOST/",
    "https://localhost./",
    "https://hooks.localhost/",
    "https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/",
    "https://intranet/",
    "https://printer.local/",
    "https://metadata.google.internal/",
    "https://router.home.arpa/",
    "https://1.0.0.127.in-addr.arpa/",
    "https://hooks.example.com./",
    "https://hooks..example.com/",
    "https://-hooks.example.com/",
    "https://hooks_1.example.com/",
    `https://${"a".repeat(64)}.example.com/`,
    "https://abc.onion/",
  ],
  [
    "address_not_public",
    "https://127.0.0.1/",
    "https://127.1/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.0.0.1/",
    "https://0177.0.0.1/",
    "https://017700000001/",
    "https://１２７.0.0.1/",
    "https://127。0。0。1/",
    "https://%31%32%37.0.0.1/",
    "https://127.0.0.1./",
    "https://0/",
    "https://2852039166/",
    "https://169.254.169.254/latest/meta-data/",
    "https://[::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[fd00:ec2::254]/",
  ],
];

describe("checkDestination", () => {
  for (const [code, ...urls] of hostileUrls)
    describe(`refuses with ${code}, without a lookup`, () => {
      for (const url of urls)
        it(`${JSON.stringify(url.slice(0, 80))} is refused with ${code}`, async () => {
          expect(await findFault(url, failingLookup)).to.equal(code);
        });
    });

  describe("checks every address of a name", () => {
    const privateAddresses = ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "fd00::1", "::ffff:10.0.0.1"];
    for (const address of privateAddresses) {
      it(`a host name with the address ${address} is refused`, async () => {
        expect(await findFault("https://hooks.example.com/", createLookup(address))).to.equal("address_not_public");
      });
      it(`a host name with a public address and the address ${address} is refused`, async () => {
        expect(await findFault("https://hooks.example.com/", createLookup("93.184.216.34", address))).to.equal(
          "address_not_public",
        );
      });
    }

    it("an invalid address from a resolver is refused", async () => {
      expect(await findFault("https://hooks.example.com/", createLookup("0x7f.1"))).to.equal("address_not_public");
    });

    it("a public host name is accepted, and the checked addresses are returned, IPv4 first", async () => {
      const destination = await checkDestination("https://hooks.example.com:8443/in?a=b", {
        allowsLoopback: false,
        lookup: createLookup("2606:4700::6810:84e5", "93.184.216.34"),
      });
      expect(destination.addresses).to.deep.equal(["93.184.216.34", "2606:4700::6810:84e5"]);
      expect(destination.url.href).to.equal("https://hooks.example.com:8443/in?a=b");
    });

    it("a host name with only IPv6 addresses is accepted", async () => {
      const lookup = createLookup("2606:4700::6810:84e5");
      const destination = await checkDestination("https://hooks.example.com/", { allowsLoopback: false, lookup });
      expect(destination.addresses).to.deep.equal(["2606:4700::6810:84e5"]);
    });

    it("an internationalized host name is resolved in ASCII form", async () => {
      const lookedUpHosts: string[] = [];
      const lookup: Lookup = async (host) => {
        lookedUpHosts.push(host);
        return ["93.184.216.34"];
      };
      expect(await findFault("https://приклад.example/", lookup)).to.equal(null);
      expect(lookedUpHosts).to.deep.equal(["xn--80aikifvh.example"]);
    });
  });

  it("a public IP address is accepted without a lookup", async () => {
    expect(await findFault("https://8.8.8.8/", failingLookup)).to.equal(null);
    expect(await findFault("https://[2606:4700::1]:8443/", failingLookup)).to.equal(null);
  });

  it("a failed lookup is not reported as an unsafe address", async () => {
    const notFoundLookup: Lookup = async () => {
      throw Object.assign(new Error("queryA ENOTFOUND"), { code: "ENOTFOUND" });
    };
    expect(await findFault("https://hooks.example.com/", notFoundLookup)).to.equal("lookup_failed");
    expect(await findFault("https://hooks.example.com/", createLookup())).to.equal("lookup_failed");
  });

  it("a URL is limited to 2,048 characters after it was encoded and normalized", async () => {
    const lookup = createLookup("93.184.216.34");
    for (const [prefix, text, maxCount] of [
      ["https://hooks.example.com/", "a", 2_022],
      ["https://hooks.example.com/", "ü", 337],
      ["https://hooks.example.com:443/./", "a", 2_022],
    ] as const) {
      expect(await findFault(prefix + text.repeat(maxCount), lookup)).to.equal(null);
      expect(await findFault(prefix + text.repeat(maxCount + 1), lookup)).to.equal("malformed_url");
    }
  });

  it("a URL in the form that the check returns is accepted again, unchanged", async () => {
    const options = { allowsLoopback: true, lookup: createLookup("93.184.216.34") };
    const check = (url: string) => checkDestination(url, options).catch(() => undefined);
    const texts = ["%", "%2F", "%e4", "%20", "/../", "%2e%2e/", "//", "?", "&", "'", '"', "<", "|", "^", "@", ":", "="];
    const letters = ["é", "ß", "ü", "你好", "ｅ", "İ", "١", "🐕", "\ud800", "\u00ad", "\u200d", "xn--", "-", "A"];
    const part = fc.oneof(fc.string({ unit: "binary", maxLength: 4 }), fc.constantFrom(...texts, ...letters));
    const label = fc.array(fc.constantFrom("a", "7", ...letters), { minLength: 1, maxLength: 30 });
    const url = fc.tuple(
      fc.constantFrom("https://", "HTTPS:", "https://@"),
      fc.oneof(
        label.map((parts) => `hooks${parts.join("")}.example`),
        fc.ipV4Extended(),
        fc.ipV6().map((address) => `[${address}]`),
      ),
      fc.constantFrom("", ":443", ":08443"),
      fc.constantFrom("", "/", "/?", "?"),
      fc.oneof(
        fc.array(part, { maxLength: 20 }).map((parts) => parts.join("")),
        fc.tuple(fc.constantFrom(...letters), fc.integer({ min: 100, max: 2_100 })).map(([text, n]) => text.repeat(n)),
      ),
    );
    let acceptedCount = 0;
    await fc.assert(
      fc.asyncProperty(url, async (parts) => {
        const destination = await check(parts.join(""));
        if (!destination) return;
        acceptedCount += 1;
        const { href } = destination.url;
        expect(await check(href)).to.deep.equal(destination);
        expect(z.url().safeParse(href).success).to.equal(true);
      }),
      { numRuns: 5_000 },
    );
    expect(acceptedCount).to.be.above(500);
  });

  describe("if loopback is allowed", () => {
    for (const url of ["http://127.0.0.1:9000/in", "http://localhost:9000/in", "https://127.0.0.2:1/"])
      it(`${url} is accepted if loopback is allowed`, async () => {
        expect(await findFault(url, failingLookup, true)).to.equal(null);
      });

    it("localhost resolves to the loopback addresses without a lookup", async () => {
      const options = { allowsLoopback: true, lookup: failingLookup };
      expect((await checkDestination("http://[::1]:9000/", options)).addresses).to.deep.equal(["::1"]);
      const { addresses } = await checkDestination("http://localhost/", options);
      expect(addresses).to.deep.equal(["127.0.0.1", "::1"]);
    });

    const refusedUrls: [string, DestinationFault][] = [
      ["http://hooks.example.com/", "scheme_not_allowed"],
      ["http://10.0.0.1/", "scheme_not_allowed"],
      ["https://10.0.0.1/", "address_not_public"],
      ["https://[::ffff:127.0.0.1]/", "address_not_public"],
      ["https://hooks.localhost/", "host_not_allowed"],
      ["http://user@127.0.0.1/", "user_info_not_allowed"],
      ["http://127.0.0.1/#x", "fragment_not_allowed"],
      ["http://0.0.0.0:9000/", "scheme_not_allowed"],
    ];
    for (const [url, code] of refusedUrls)
      it(`${url} is refused even if loopback is allowed`, async () => {
        expect(await findFault(url, failingLookup, true)).to.equal(code);
      });

    it("a public host name with a loopback address is refused even if loopback is allowed", async () => {
      expect(await findFault("https://hooks.example.com/", createLookup("127.0.0.1"), true)).to.equal(
        "address_not_public",
      );
    });
  });
});
