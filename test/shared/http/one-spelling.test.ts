import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { readAuditSite } from "../../../command/audit/page/router.ts";
import { readSite as readDocsSite } from "../../../query-api/docs/router.ts";
import { readPartnerSite } from "../../../query-api/partner-page/router.ts";
import { createPortalOperations } from "../../../query-api/portal/operations.ts";
import { uuid } from "../../../shared/domain/events/fields.ts";
import { type HttpServer, listen } from "../../../shared/http/listen.ts";
import { partnerOperations } from "../../../shared/partner-api/operations.ts";
import { type AuditWorld, startAuditWorld } from "../../command/audit/world.ts";
import { type PartnerApi, startPartnerApi } from "../../support/partner-api.ts";
import { sendOneRequest, toRequest } from "../../support/raw-http.ts";
import { createSilentApp } from "../../support/silent-app.ts";

const AUDIT_PATHS = ["me", "events", "state", "diff", "replay", "deliveries", "export", "jwks.json"];
const WELL_KNOWN = ["GET /.well-known/jwks.json", "GET /.well-known/oauth-authorization-server/sandbox/v1"];
const MONITORING = ["GET /health/live", "GET /health/ready", "GET /metrics"];

/** Returns variants of a path that a lenient server would accept. */
function listOtherSpellings(path: string): string[] {
  const lastSlashIndex = path.lastIndexOf("/");
  const [parentPath, name] = [path.slice(0, lastSlashIndex), path.slice(lastSlashIndex + 1)];
  const capitalizedPath = `${parentPath}/${name.replace(/[a-z]/, (letter) => letter.toUpperCase())}`;
  return [
    // Other spellings of an id are left out, because the operation validates ids.
    ...[path.toUpperCase(), ...(uuid.safeParse(name).success ? [] : [capitalizedPath, `${path}%2F`])],
    `${path}/`,
    `${parentPath}//${name}`,
    `/${path}`,
    ...(parentPath ? buildEncodedSlashPaths(parentPath, name) : []),
    `${parentPath}/./${name}`,
    `${parentPath}/x/../${name}`,
    `${parentPath}/%2e/${name}`,
    `${parentPath}/x/%2e%2e/${name}`,
    `http://test${parentPath}/./${name}`,
    `http://test${parentPath}/x/../${name}`,
    `http://test${path}/..${path}`,
  ];
}

function buildEncodedSlashPaths(parentPath: string, name: string): string[] {
  return ["%2F", "%2f", "%5C"].map((encodedSlash) => `${parentPath}${encodedSlash}${name}`);
}

describe("paths of all services", () => {
  let auditWorld: AuditWorld;
  let partnerApi: PartnerApi;
  let projectionServer: HttpServer;

  before(async () => {
    [auditWorld, partnerApi] = await Promise.all([startAuditWorld(), startPartnerApi()]);
    projectionServer = await listen(createSilentApp().callback(), "127.0.0.1", 0);
  });
  after(() => Promise.all([auditWorld.stop(), partnerApi.stop(), projectionServer.close()]));

  /**
   * Returns request lines for all partner reads (query API) or all partner writes (command service). Uses only one of
   * the two environments, because otherwise the requests would exceed the rate limit of an address.
   */
  const listPartnerRequestLines = (isRead: boolean) =>
    Object.values(partnerOperations)
      .filter(({ method }) => (method === "GET") === isRead)
      .map(({ method, path }) => {
        const environment = isRead ? "production" : "sandbox";
        return `${method} /${environment}/v1${path.replace(/:\w+/g, () => randomUUID())}`;
      });

  const services: [string, () => string, () => string[]][] = [
    [
      "audit",
      () => auditWorld.url,
      () => [
        ...AUDIT_PATHS.map((name) => `GET /audit/v1/${name}`),
        ...readAuditSite().map(({ path }) => `GET ${path}`),
      ],
    ],
    ["command", () => partnerApi.command.url, () => [...WELL_KNOWN, ...listPartnerRequestLines(false)]],
    [
      "query-api",
      () => partnerApi.queryUrl,
      () => [
        "GET /api/v1/openapi.json",
        "GET /partner/v1/openapi.json",
        ...[...readDocsSite(), ...readPartnerSite("SERVICE")]
          .filter(({ path }) => !path.startsWith("/docs/chunks/"))
          .map(({ path }) => `GET ${path}`),
        ...createPortalOperations({ operatorName: "Test" }).map(({ path }) => `GET ${path}`),
        ...listPartnerRequestLines(true),
      ],
    ],
    ["projection", () => projectionServer.url, () => []],
  ];

  for (const [serviceName, getUrl, listRequestLines] of services)
    it(`${serviceName} returns 404 if a known path is spelled differently`, async () => {
      for (const requestLine of [...MONITORING, ...listRequestLines()]) {
        const [method = "", path = ""] = requestLine.split(" ");
        const knownResponse = await sendOneRequest(getUrl(), toRequest(`${requestLine} HTTP/1.1`, []));
        expect(knownResponse.status, requestLine).to.not.equal(404);
        for (const spelling of listOtherSpellings(path)) {
          const response = await sendOneRequest(getUrl(), toRequest(`${method} ${spelling} HTTP/1.1`, []));
          // The path of a page can have a trailing slash.
          if (response.status === 308) {
            expect([spelling, response.headers.location]).to.deep.equal([`${path}/`, path]);
            continue;
          }
          expect([response.status, response.body?.error], `${method} ${spelling}`).to.deep.equal([404, "not_found"]);
        }
      }
    });
});
