import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { findOnPath } from "../../deploy/local/setup/system-package.ts";
import { buildPortalDocument } from "../../query-api/docs/portal-document.ts";
import { createPortalOperations } from "../../query-api/portal/operations.ts";
import { openClinic } from "../support/clinics.ts";
import { TOKEN_ISSUER } from "../support/partner.ts";
import { partnerDocument } from "../support/partner-document.ts";
import { startTestQueryApi } from "../support/query-api.ts";
import { startReceiver } from "../support/receiver.ts";
import { makeTestRoot } from "../support/stack.ts";
import { startDocumentedService } from "./documented-service.ts";
import { createCollection } from "./postman-collection.ts";
import { run, skip } from "./sample-programs.ts";

/** Shell commands that assign an id in a response to a variable, by the operation that returned the response. */
const ASSIGNMENTS: Readonly<Record<string, string>> = {
  createPartnerAppointment: "APPOINTMENT_ID=$(jq -r .appointment.id < response)",
  linkAnimal: "LINK_ID=$(jq -r .link.id < response)",
  createWebhookEndpoint: "ENDPOINT_ID=$(jq -r .endpoint.id < response)",
  testWebhookEndpoint: "DELIVERY_ID=$(jq -r .delivery.id < response)",
  replayWebhookDeliveries: "REPLAY_ID=$(jq -r .replay.id < response)",
};

/** Shell blocks of the Quickstart in the document. */
const quickstart = [
  ...(partnerDocument.info.description.split("## Verify a signature")[0] ?? "").matchAll(/```sh\n(.*?)```/gs),
].map(([, block = ""]) => block);

describe("the commands of the API reference", function () {
  this.timeout(300_000);

  /**
   * Creates a curl configuration that connects to the given origin instead of the public origin, which does not
   * resolve.
   */
  function createCurlHome(origin: string): string {
    const folder = path.join(makeTestRoot(), "curl");
    mkdirSync(folder);
    const { hostname } = new URL(TOKEN_ISSUER);
    writeFileSync(path.join(folder, ".curlrc"), `silent\nconnect-to = ${hostname}:80:${new URL(origin).host}\n`);
    return folder;
  }

  it("the blocks of the Quickstart and then the commands of all operations succeed as they are printed", async function () {
    if (!["curl", "jq"].every(findOnPath)) return skip(this, "curl or jq");
    const [service, receiver] = await Promise.all([startDocumentedService(), startReceiver()]);
    const { env } = await service.createSandboxPartner();
    const CURL_HOME = createCurlHome(service.origin);
    const operations = Object.values(partnerDocument.paths).flatMap((item) => Object.values(item));
    const order = createCollection(partnerDocument).item.flatMap(({ item }) => item.map(({ name }) => name));
    operations.sort((a, b) => order.indexOf(a.summary) - order.indexOf(b.summary));
    const commands = operations.map(({ operationId, "x-codeSamples": [sample] = [] }) => {
      expect(sample?.label, operationId).to.equal("curl");
      const assignment = ASSIGNMENTS[operationId] ?? ":";
      // The read models lag behind the writes.
      const attempts = sample?.source.startsWith("curl -X GET") ? 30 : 1;
      return `for attempt in $(seq ${attempts}); do
(
${sample?.source}
) > response
[ "$(jq -r .ok < response)" = false ] && jq -e '.error | test("_not_found|unavailable|behind")' < response > error || break
sleep 0.5
done
${assignment}
jq -c '{id: "${operationId}", error}' < response`;
    });
    const script = [`cd "${CURL_HOME}"`, ...quickstart.slice(0, 2), `{ ${quickstart[2]} } > response`, ...commands];
    const output = await run(["sh", "-c", script.join("\n")], {
      ...{ ...env, CURL_HOME, API: "", WEBHOOK_URL: `${receiver.url}/hooks` },
    });
    const results = output
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(results).to.have.length(operations.length);
    // The commands withdraw the link before. The only delivery is a test, which has not failed.
    expect(results.filter(({ error }) => error !== null)).to.deep.equal([
      { id: "endAnimalLink", error: "animal_link_not_found" },
      { id: "replayWebhookDelivery", error: "delivery_not_replayable" },
    ]);
  });

  it("the Quickstart names the error if the secret is wrong", async function () {
    if (!["curl", "jq"].every(findOnPath)) return skip(this, "curl or jq");
    const service = await startDocumentedService();
    const { env } = await service.createSandboxPartner();
    const script = `${quickstart.join("\n")} 2>&1`;
    const output = await run(["sh", "-c", `{ ${script}\n} 2>&1`], {
      ...{ ...env, CLIENT_SECRET: "wrong", API: "", CURL_HOME: createCurlHome(service.origin) },
    });
    expect(output).to.match(/invalid_client.*missing_token/s);
  });

  it("the commands of all portal operations succeed as they are printed", async function () {
    if (!findOnPath("curl")) return skip(this, "curl");
    const api = await startTestQueryApi();
    const { userId } = await openClinic(api.given);
    const operations = createPortalOperations({ operatorName: "Test" });
    const { paths } = buildPortalDocument(operations, { operatorName: "Test", cookieName: "sb-test-auth-token" });
    const commands = Object.values(paths).map(({ get }) => `${get?.["x-codeSamples"]?.[0]?.source}\necho`);
    const output = await run(["sh", "-euc", commands.join("\n")], {
      ...{ PORTAL: api.url, SESSION: await api.provider.createSessionCookie(userId) },
    });
    const bodies = output
      .trim()
      .split("\n")
      .filter((line) => line.startsWith("{"));
    expect(bodies.map((body) => JSON.parse(body).ok)).to.deep.equal(operations.map(() => true));
  });
});
