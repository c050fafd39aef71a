import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { Spectral } from "@stoplight/spectral-core";
import { oas } from "@stoplight/spectral-rulesets";
import { expect } from "chai";
import { request } from "undici";
import type { OpenApiDocument } from "../../../query-api/docs/openapi.ts";
import { startQueryApi } from "../../../query-api/start.ts";
import { attemptErrors } from "../../../shared/webhooks/attempt-error.ts";
import { partnerDocument } from "../../support/partner-document.ts";
import { queryEnvironment } from "../../support/query-environment.ts";
import { useResource } from "../../support/resources.ts";
import { findGeneratorFaults } from "./generator-faults.ts";

/** Names of the schemas that permit no additional members: requests, and closed bodies of the portal's contract. */
const closedSchemas = {
  partner: /Request$/,
  portal:
    /^(ListAuthorizedClinics|ListAuthorizedBranches|ListStaff|ListCustomerProjections|GetAvailability|GetQueue)Result$|^(Page|TimeWindow)$/,
} as const;

const documentPaths = { portal: "/api/v1/openapi.json", partner: "/partner/v1/openapi.json" } as const;

describe("the OpenAPI documents", () => {
  // The documents need neither Postgres nor a key server.
  const service = useResource(() =>
    startQueryApi({ ...queryEnvironment, OPERATOR_NAME: "Vet & Co", HEADER_BRAND: "ACME" }),
  );

  after(() => service.stop());

  const fetchPath = (path: string, init?: RequestInit) => fetch(service.url + path, init);
  const readDocument = async (name: keyof typeof documentPaths) =>
    (await (await fetchPath(documentPaths[name])).json()) as OpenApiDocument;

  for (const [name, path] of Object.entries(documentPaths))
    describe(name, () => {
      it(`the ${name} document passes Spectral's OpenAPI ruleset without errors or warnings`, async () => {
        expect(await lint(await readDocument(name as keyof typeof documentPaths))).to.deep.equal([]);
      });

      it(`GET ${path} needs no authentication and supports ETags`, async () => {
        const response = await fetchPath(path);
        expect([response.status, response.headers.get("Content-Type")]).to.deep.equal([
          200,
          "application/json; charset=utf-8",
        ]);
        expect(response.headers.get("Cache-Control")).to.equal("public, max-age=300");
        const etag = response.headers.get("ETag") ?? "";
        expect(etag).to.match(/^W\/"[\w-]{43}"$/);
        // undici's fetch would add its own cache headers to a conditional request.
        const repeatedResponse = await request(service.url + path, { headers: { "If-None-Match": etag } });
        expect([repeatedResponse.statusCode, await repeatedResponse.body.text()]).to.deep.equal([304, ""]);
        const headResponse = await fetchPath(path, { method: "HEAD" });
        expect([headResponse.status, await headResponse.text(), headResponse.headers.get("ETag")]).to.deep.equal([
          200,
          "",
          etag,
        ]);
      });

      it(`the ${name} document has the OpenAPI version, unique operation ids, and the operator's name`, async () => {
        const { openapi, info, paths } = await readDocument(name as keyof typeof documentPaths);
        expect(openapi).to.match(/^3\.1\.\d$/);
        expect(info.contact.name).to.equal("Vet & Co");
        const operationIds = Object.values(paths).flatMap((pathItem) =>
          Object.values(pathItem).map(({ operationId }) => operationId),
        );
        expect(new Set(operationIds).size).to.equal(operationIds.length);
      });
    });

  it("the OpenAPI documents contain the configured cookie name, header brand and base URLs", async () => {
    const portalDocument = await readDocument("portal");
    expect(portalDocument.components.securitySchemes.session).to.include({ in: "cookie", name: "sb-test-auth-token" });
    const schemaText = JSON.stringify(portalDocument.components.schemas.ListCustomerProjectionsResult);
    expect(schemaText).to.contain('"const":"Vet & Co"');
    const partnerDocument = await readDocument("partner");
    expect(partnerDocument.servers.map(({ url }) => url)).to.deep.equal([
      `${queryEnvironment.TOKEN_ISSUER}/sandbox/v1`,
      `${queryEnvironment.TOKEN_ISSUER}/production/v1`,
    ]);
    const headerNames = partnerDocument.paths["/clinic/context"]?.get?.parameters.map(({ name }) => name);
    expect(headerNames).to.deep.equal(["X-ACME-Clinic-ID", "X-ACME-Branch-ID", "X-ACME-Log-Position"]);
    expect(JSON.stringify(partnerDocument)).to.not.contain("X-SERVICE");
  });

  it("the OpenAPI documents list the errors that every operation can return", async () => {
    const errors = [
      await readError(fetchPath("/api/v1/nothing")),
      await readError(fetchPath("/api/v1/clinics", { method: "POST" })),
      await readError(fetchPath("/api/v1/mobile/pets")),
      await readRawError("GET / HTTP/1.1\r\nHost: a b\r\n  x\r\n\r\n"),
      await readRawError(`GET / HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(40_000)}\r\n\r\n`),
    ];
    expect(errors).to.deep.equal([
      [404, "not_found"],
      [405, "method_not_allowed"],
      [410, "operation_retired"],
      [400, "malformed_request"],
      [431, "headers_too_large"],
    ]);
    for (const name of ["portal", "partner"] as const) {
      const { info } = await readDocument(name);
      for (const [status, code] of errors) expect(info.description).to.contain(`\n| ${status} | \`${code}\` | `);
      // A code without a status is one that no operation lists.
      expect(info.description).not.to.match(/^\| *\| `/m);
    }
  });

  it("the partner document explains how to discard stale webhook events, and describes each attempt error", async () => {
    const { webhooks = {}, components } = await readDocument("partner");
    for (const name of ["appointment.created", "appointment.updated"]) {
      const { description } = webhooks[name]?.post ?? {};
      expect(description).to.contain("in any order").and.contain("data.appointment.revision");
    }
    expect(webhooks["endpoint.test"]?.post?.description).to.contain("no revision");
    const schemaText = JSON.stringify(components.schemas.AppointmentEvent);
    expect(schemaText).to.contain('"revision":{');
    const deliverySchemaText = JSON.stringify(components.schemas.WebhookDelivery);
    for (const code of Object.keys(attemptErrors)) expect(deliverySchemaText).to.contain(`- \`${code}\`: `);
  });

  it("the partner document describes token requests with JSON, and mentions forms and Basic credentials", async () => {
    const { paths, components } = await readDocument("partner");
    const { security, description } = paths["/oauth/token"]?.post ?? {};
    const { required } = components.schemas.ExchangeTokenRequest ?? {};
    expect(required).to.deep.equal(["client_id", "client_secret", "grant_type", "environment"]);
    expect(description).to.contain("RFC 6749");
    expect(security).to.deep.equal([{}, { applicationCredentials: [] }]);
    expect(components.securitySchemes.applicationCredentials).to.include({ type: "http", scheme: "basic" });
  });

  for (const name of ["portal", "partner"] as const)
    it(`the ${name} document contains no form that client generators handle wrongly`, async () => {
      const document = await readDocument(name);
      expect(findGeneratorFaults(document, closedSchemas[name])).to.deep.equal([]);
      for (const [schemaName, { additionalProperties }] of Object.entries(document.components.schemas)) {
        // A token request can have unknown members, because OAuth ignores them.
        const isClosed = closedSchemas[name].test(schemaName) && schemaName !== "ExchangeTokenRequest";
        expect(additionalProperties === false, schemaName).to.equal(isClosed);
      }
    });

  it("the check of generators reports each form that at least one generator handles wrongly", async () => {
    const exactDocument = structuredClone(partnerDocument);
    const { paths, webhooks = {}, components } = exactDocument;
    const event = webhooks["endpoint.test"]?.post;
    const tokenRequest = paths["/oauth/token"]?.post?.requestBody;
    const clinicHeader = paths["/clinic/context"]?.get?.parameters[0];
    if (!event || !tokenRequest || !clinicHeader) throw new Error("the document lacks an operation");
    event.tags = ["Webhook endpoints"];
    tokenRequest.content = { ...tokenRequest.content, "application/x-www-form-urlencoded": { schema: {} } };
    components.schemas.ExchangeTokenResponse = {};
    clinicHeader.schema = { type: "string", format: "uuid" };
    expect(findGeneratorFaults(exactDocument, closedSchemas.partner)).to.include.members([
      "The tag Webhook endpoints is on operations and webhooks",
      "The request of exchangeToken has 2 media types",
      "The header X-SERVICE-Clinic-ID of getClinicContext has a format",
      "The name of the schema ExchangeTokenResponse is one that generators derive",
      "TestEvent.properties.branchId has the type null",
      "TestEvent.properties.data.properties.test is a fixed boolean",
      "ExchangeTokenResult.properties.expires_in is a fixed number",
      "ExchangeTokenResult permits no additional members",
    ]);
  });

  it("the partner document states that an id in a path can be refused as not found, and that limits are clamped", async () => {
    const { paths } = await readDocument("partner");
    for (const [path, item] of Object.entries(paths).filter(([path]) => path.includes("{"))) {
      for (const { responses } of Object.values(item)) {
        expect(responses["404"]?.description, path).to.contain("- `not_found`: ");
        expect(JSON.stringify(responses["404"]?.content), path).to.contain('"not_found"');
      }
    }
    const limit = paths["/appointments"]?.get?.parameters.find(({ name }) => name === "limit");
    expect(limit?.description).to.contain("any other invalid value by the default");
  });

  it("the linter of the OpenAPI documents reports an undefined tag", async () => {
    expect(await lint({ ...(await readDocument("portal")), tags: [] })).to.include(
      "operation-tag-defined paths./api/v1/queue.get.tags.0",
    );
  });

  async function lint(document: OpenApiDocument): Promise<string[]> {
    const linter = new Spectral();
    linter.setRuleset({ extends: [[oas, "recommended"]] } as never);
    const findings = await linter.run({ ...document });
    return findings.map(({ code, path }) => `${code} ${path.join(".")}`);
  }

  async function readError(response: Promise<Response>): Promise<[number, string]> {
    const { status } = await response;
    return [status, ((await (await response).json()) as { error: string }).error];
  }

  /** Sends a request that fetch cannot send, and returns status and error code. */
  async function readRawError(request: string): Promise<[number, string]> {
    const socket = connect(Number(new URL(service.url).port), "127.0.0.1");
    socket.write(request);
    const response = await text(socket);
    return [Number(response.split(" ")[1]), JSON.parse(response.slice(response.indexOf("\r\n\r\n"))).error];
  }
});
