import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { networkInterfaces } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { type DnsServer, startDnsServer } from "../../../support/dns-server.ts";
import { check } from "../../report.ts";
import type { Installation } from "../installation.ts";
import type { Partner } from "../onboard.ts";

const PARTNER_HOST = "hooks.partner.example";

/** Public address of the partner's host name. Nothing connects to it. */
const PARTNER_ADDRESS = "93.184.216.34";

/** Checks that `command` can resolve public names, and that only `webhooks` can connect to outside addresses. */
export async function checkNames(installation: Installation, partner: Partner): Promise<void> {
  const dns = await startOwnDns(installation);
  try {
    const register = (host: string) =>
      partner.post("/webhook-endpoints", { url: `https://${host}/`, events: ["appointment.created"] });

    await check("a webhook endpoint with a public host name can be registered", async () => {
      await partner.approveOrigin(`https://${PARTNER_HOST}`);
      const { status, body } = await register(PARTNER_HOST);
      expect(status, body).to.equal(201);
      expect(dns.questions).to.include(`A ${PARTNER_HOST}`);
    });

    await check("a webhook endpoint whose host has no address is refused", async () => {
      dns.setReplies({ A: "nxdomain", AAAA: "nxdomain" });
      await partner.approveOrigin("https://nothing.partner.example");
      const { status, body } = await register("nothing.partner.example");
      expect(status, body).to.equal(400);
      expect(JSON.parse(body).error).to.equal("unsafe_destination");
    });

    await check("of all services, only webhooks reaches an address outside", async () => {
      const server = createServer((socket) => socket.end()).listen(0, findHostAddress());
      await once(server, "listening");
      const { address, port } = server.address() as AddressInfo;
      const script = `require("node:net").connect(${port}, "${address}").on("connect", () => process.exit(0)).on("error", () => process.exit(1)); setTimeout(() => process.exit(1), 3000)`;
      const reaches = async (service: string) =>
        (await installation.tryCompose(["exec", "-T", service, "node", "-e", script])).code === 0;
      const services = ["webhooks", "command", "query-api", "audit", "projection", "clinic"];
      const results = await Promise.all(services.map(reaches)).finally(() => server.close());
      expect(services.filter((_, index) => results[index])).to.deep.equal(["webhooks"]);
    });
  } finally {
    await dns.close();
  }
}

/** Starts a DNS server and makes the container `resolver` forward queries to it. */
async function startOwnDns({ folder, compose }: Installation): Promise<DnsServer> {
  const address = findHostAddress();
  const dns = await startDnsServer({ address, port: 53 });
  dns.setAddresses(PARTNER_ADDRESS);
  const override = path.join(folder, "dns.yaml");
  writeFileSync(override, JSON.stringify({ services: { resolver: { dns: [address] } } }));
  await compose(["--file", "compose.yaml", "--file", override, "up", "--detach", "--no-deps", "resolver"]);
  return dns;
}

/** Returns an address of this machine that containers can reach through the network `internet`. */
function findHostAddress(): string {
  const addresses = Object.entries(networkInterfaces()).flatMap(([name, list = []]) =>
    name.startsWith("podman") ? [] : list,
  );
  const address = addresses.find(({ family, internal }) => family === "IPv4" && !internal)?.address;
  if (address === undefined) throw new Error("This machine has no IPv4 address besides loopback");
  return address;
}
