import { expect } from "chai";
import { partnerResponseChecker } from "../../support/partner-document.ts";
import { createPortalChecker } from "../../support/portal-document.ts";
import { listRoutes as listMethods } from "../../support/routed-apps.ts";

/** Lists the routes of a service as `METHOD /path`, without HEAD. */
const listRoutes = (service: "command" | "queryApi") =>
  [...listMethods(service)].flatMap(([path, methods]) =>
    methods.filter((method) => method !== "HEAD").map((method) => `${method} ${path}`),
  );

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
    const routes = listRoutes("queryApi")
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

  it("the partner document and the routes of both services contain the same operations, which an application has likewise", () => {
    const allRoutes = [...listRoutes("queryApi"), ...listRoutes("command")].map((route) =>
      route.replace(/:(\w+)/g, "{$1}"),
    );
    for (const basePath of ["/sandbox/v1", "/production/v1"]) {
      const routes = allRoutes
        .filter(startsWithPath(new RegExp(` ${basePath}/`)))
        .map((route) => route.replace(basePath, ""));
      const isAtApplication = startsWithPath(/ \/application\//);
      const clinicRoutes = routes.filter((route) => !isAtApplication(route));
      expect(partnerResponseChecker.operations.map(toRoute)).to.have.members(clinicRoutes);
      const ownerRoutes = clinicRoutes.filter(startsWithPath(/ \/(webhook-endpoints|events)/));
      expect(routes.filter(isAtApplication)).to.have.members(
        ownerRoutes.map((route) => route.replace(" /", " /application/")),
      );
    }
  });

  it("the only undocumented routes return the OpenAPI documents, the pages, public keys and the metadata", () => {
    const undocumentedRoutes = [...listRoutes("queryApi"), ...listRoutes("command")].filter(
      (route) =>
        !startsWithPath(/ \/(sandbox|production)\/v1\//)(route) &&
        !portalChecker.operations.map(toRoute).includes(route),
    );
    expect(
      undocumentedRoutes.filter((route) => !/^GET \/(docs|partner)(\/|(\/chunks)?\/[\w.-]+\.\w+)?$/.test(route)),
    ).to.have.members([
      "GET /api/v1/openapi.json",
      "GET /partner/v1/openapi.json",
      "GET /",
      "GET /.well-known/jwks.json",
      "GET /.well-known/webhook-keys.json",
      "GET /.well-known/oauth-authorization-server/sandbox/v1",
      "GET /.well-known/oauth-authorization-server/production/v1",
    ]);
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
      "listSlots GET /slots",
      "getPartnerAppointment GET /appointments/{appointmentId}",
      "listEvents GET /events",
      "changeSandboxAppointmentStatus POST /appointments/{appointmentId}/transitions",
      "rescheduleSandboxAppointment POST /appointments/{appointmentId}/reschedule",
      "linkAnimal POST /animal-links",
      "listAnimalLinks GET /animal-links",
      "getAnimalLink GET /animal-links/{linkId}",
      "endAnimalLink DELETE /animal-links/{linkId}",
      "withdrawSandboxLink POST /animal-links/{linkId}/withdraw",
      "changeSandboxAccess POST /sandbox/access",
      "getSandboxState GET /sandbox",
      "resetSandbox POST /sandbox/reset",
      ...endpointRoutes,
    ]);
  });
});
