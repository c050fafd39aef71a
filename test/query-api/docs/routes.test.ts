import { expect } from "chai";
import { pino } from "pino";
import { type CommandAppOptions, createCommandApp } from "../../../command/app.ts";
import { createQueryApp, type QueryApiOptions } from "../../../query-api/app.ts";
import { partnerResponseChecker } from "../../support/partner-document.ts";
import { createPortalChecker } from "../../support/portal-document.ts";

const settings = { operatorName: "Test Operator", cookieName: "sb-test-auth-token", brand: "SERVICE" };
const options = { ...settings, logger: pino({ level: "silent" }), retiredPaths: [], isProxyTrusted: false };

/** The test sends no requests, so only the options for creating routes are set. */
const queryApp = createQueryApp({ ...options, origin: "http://partners.test" } as unknown as QueryApiOptions);
const commandApp = createCommandApp({
  ...options,
  tokenSigner: { jwks: { keys: [] } },
  tokenIssuer: "http://partners.test",
} as unknown as CommandAppOptions);

interface RoutedMiddleware {
  router?: { stack: { path: string | RegExp; methods: string[] }[] };
}

/** Lists an application's routes as `METHOD /path`. Omits HEAD and the routes that return 405. */
function listRoutes(app: { middleware: unknown[] }): string[] {
  const layers = (app.middleware as RoutedMiddleware[]).flatMap(({ router }) => router?.stack ?? []);
  return layers
    .filter(({ methods }) => !methods.includes("TRACE"))
    .flatMap(({ path, methods }) => methods.map((method) => `${method} ${path}`))
    .filter((route) => !route.startsWith("HEAD "));
}

const startsWithPath = (pathPattern: RegExp) => (route: string) => pathPattern.test(route);
const portalChecker = createPortalChecker();
const toRoute = ({ method, path }: { method: string; path: string }) => `${method} ${path}`;

const endpointRoutes = [
  "listWebhookEndpoints GET /webhook-endpoints",
  "createWebhookEndpoint POST /webhook-endpoints",
  "getWebhookEndpoint GET /webhook-endpoints/{endpointId}",
  "updateWebhookEndpoint PATCH /webhook-endpoints/{endpointId}",
  "disableWebhookEndpoint POST /webhook-endpoints/{endpointId}/disable",
  "enableWebhookEndpoint POST /webhook-endpoints/{endpointId}/enable",
  "revokeWebhookEndpoint DELETE /webhook-endpoints/{endpointId}",
  "rotateWebhookSecret POST /webhook-endpoints/{endpointId}/rotate-secret",
  "testWebhookEndpoint POST /webhook-endpoints/{endpointId}/test",
  "listWebhookDeliveries GET /webhook-endpoints/{endpointId}/deliveries",
  "getWebhookDelivery GET /webhook-endpoints/{endpointId}/deliveries/{deliveryId}",
  "replayWebhookDelivery POST /webhook-endpoints/{endpointId}/deliveries/{deliveryId}/replay",
  "replayWebhookDeliveries POST /webhook-endpoints/{endpointId}/replays",
  "getWebhookReplay GET /webhook-endpoints/{endpointId}/replays/{replayId}",
];

describe("the documents and the routes", () => {
  it("the portal document and the routes contain exactly the agreed portal operations", () => {
    const routes = listRoutes(queryApp)
      .filter(startsWithPath(/ \/api\/v1\//))
      .filter((route) => !route.endsWith("/openapi.json"));
    const documentedRoutes = portalChecker.operations.map(
      (operation) => `${operation.operationId} ${toRoute(operation)}`,
    );
    expect(portalChecker.operations.map(toRoute)).to.have.members(routes);
    expect(documentedRoutes).to.have.members([
      "getClinicContext GET /api/v1/clinic/context",
      "listAuthorizedClinics GET /api/v1/clinics",
      "listAuthorizedBranches GET /api/v1/branches",
      "listServices GET /api/v1/services",
      "listStaff GET /api/v1/staff",
      "listCustomerProjections GET /api/v1/customers",
      "listAppointments GET /api/v1/appointments",
      "getAvailability GET /api/v1/availability",
      "getQueue GET /api/v1/queue",
    ]);
  });

  it("the partner document and the routes of both services contain the same operations, in both environments", () => {
    const allRoutes = [...listRoutes(queryApp), ...listRoutes(commandApp)].map((route) =>
      route.replace(/:(\w+)/g, "{$1}"),
    );
    for (const basePath of ["/sandbox/v1", "/production/v1"]) {
      const routes = allRoutes
        .filter(startsWithPath(new RegExp(` ${basePath}/`)))
        .map((route) => route.replace(basePath, ""));
      expect(partnerResponseChecker.operations.map(toRoute)).to.have.members(routes);
    }
  });

  it("the only undocumented routes return the OpenAPI documents, the pages, public keys and the metadata", () => {
    const undocumentedRoutes = [...listRoutes(queryApp), ...listRoutes(commandApp)].filter(
      (route) =>
        !startsWithPath(/ \/(sandbox|production)\/v1\//)(route) &&
        !portalChecker.operations.map(toRoute).includes(route),
    );
    expect(undocumentedRoutes.filter((route) => !/^GET \/(docs|partner)(\/[\w-]+\.\w+)?$/.test(route))).to.have.members(
      [
        "GET /api/v1/openapi.json",
        "GET /partner/v1/openapi.json",
        "GET /",
        "GET /.well-known/jwks.json",
        "GET /.well-known/webhook-keys.json",
        "GET /.well-known/oauth-authorization-server/sandbox/v1",
        "GET /.well-known/oauth-authorization-server/production/v1",
      ],
    );
  });

  it("the partner document contains exactly the agreed partner operations", () => {
    expect(
      partnerResponseChecker.operations.map((operation) => `${operation.operationId} ${toRoute(operation)}`),
    ).to.have.members([
      "exchangeToken POST /oauth/token",
      "listInstallations GET /installations",
      "getClinicContext GET /clinic/context",
      "listPartnerAppointments GET /appointments",
      "createPartnerAppointment POST /appointments",
      "getPartnerAppointment GET /appointments/{appointmentId}",
      "listEvents GET /events",
      "changeSandboxAppointmentStatus POST /appointments/{appointmentId}/transitions",
      "rescheduleSandboxAppointment POST /appointments/{appointmentId}/reschedule",
      "linkAnimal POST /animal-links",
      "listAnimalLinks GET /animal-links",
      "getAnimalLink GET /animal-links/{linkId}",
      "endAnimalLink DELETE /animal-links/{linkId}",
      "getSandboxState GET /sandbox",
      "resetSandbox POST /sandbox/reset",
      ...endpointRoutes,
      ...endpointRoutes.map((route) => route.replace("Webhook", "ApplicationWebhook").replace(" /", " /application/")),
    ]);
  });
});
