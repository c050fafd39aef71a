import { expect } from "chai";
import fc from "fast-check";
import type { PartnerOperationId } from "../../../shared/partner-api/operations.ts";
import { partnerResponseChecker } from "../../support/partner-document.ts";
import { useResource } from "../../support/resources.ts";
import { createRequestArbitrary } from "./generated-requests.ts";
import { statusTriggers } from "./partner-provocations.ts";
import { validRequests } from "./partner-requests.ts";
import { startPartnerContractWorld } from "./partner-world.ts";
import { send } from "./sandbox-request.ts";

const documentsBody = (operationId: string) =>
  partnerResponseChecker.operations.find((it) => it.operationId === operationId)?.operation.requestBody !== undefined;

const toUpperCaseIds = (text: string) =>
  text.replace(/[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}/g, (id) => id.toUpperCase());

describe("responses of the partner API", () => {
  const world = useResource(startPartnerContractWorld);

  after(() => world.stop());

  it("the tests cover exactly the operations of the partner document", () => {
    const documentedOperationIds = partnerResponseChecker.operations.map(({ operationId }) => operationId);
    expect(documentedOperationIds).to.have.members(Object.keys(statusTriggers));
  });

  for (const documentedOperation of partnerResponseChecker.operations) {
    const { operationId, operation } = documentedOperation;
    describe(operationId, () => {
      const operationTriggers = statusTriggers[operationId as PartnerOperationId] ?? {};

      it(`the tests provoke exactly the documented statuses of the partner operation ${operationId}`, () => {
        expect(Object.keys(operation.responses)).to.have.members(Object.keys(operationTriggers));
      });

      for (const [status, sendRequest] of Object.entries(operationTriggers))
        it(`the partner operation ${operationId} returns ${status} as documented`, async () => {
          const response = await sendRequest(world);
          expect(response.status, response.text).to.equal(Number(status));
          partnerResponseChecker.checkResponse(documentedOperation, response);
        });
    });
  }

  for (const operationId of Object.keys(validRequests) as PartnerOperationId[]) {
    it(`${operationId} accepts ids in upper case`, async () => {
      const { headers, body, path, ...request } = await validRequests[operationId](world.unrestrictedPartner, world);
      const clinicHeader = headers["X-SERVICE-Clinic-ID"]?.toUpperCase();
      const response = await send(world.origins, {
        ...{ ...request, path: toUpperCaseIds(path), body: body && JSON.parse(toUpperCaseIds(JSON.stringify(body))) },
        headers: { ...headers, ...(clinicHeader && { "X-SERVICE-Clinic-ID": clinicHeader }) },
      });
      expect(response.status, response.text).to.be.within(200, 299);
    });

    if (documentsBody(operationId))
      it(`${operationId} returns 400 invalid_json if an object in the body has a name twice`, async () => {
        const request = await validRequests[operationId](world.unrestrictedPartner, world);
        const members = JSON.stringify(request.body ?? {}).slice(1, -1);
        const nestedBody = `{${members ? `${members},` : ""}"x":[{"y":"\\"y\\":{","\\u0079":1}]}`;
        for (const body of [`{"a":1,${members ? `${members},` : ""}"a":1}`, nestedBody]) {
          const response = await send(world.origins, { ...request, body });
          expect([response.status, response.body.error], response.text).to.deep.equal([400, "invalid_json"]);
        }
      });

    it(`no generated request to ${operationId} returns 500, and all responses are as documented`, async () => {
      const validRequest = await validRequests[operationId](world.unrestrictedPartner, world);
      const { headers } = validRequest;
      await fc.assert(
        fc.asyncProperty(createRequestArbitrary(operationId, validRequest), async (request) => {
          const { status, body } = await send(world.origins, request);
          expect(status).to.not.equal(500);
          const path = `${validRequest.path}/${body.endpoint?.id}`;
          if (status === 201 && body.endpoint) await send(world.origins, { method: "DELETE", path, headers });
        }),
        { numRuns: 60 },
      );
    });
  }
});
