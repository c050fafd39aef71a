import { expect } from "chai";
import type { PartnerOperationId } from "../../../shared/partner-api/operations.ts";
import { partnerResponseChecker } from "../../support/partner-document.ts";
import { statusTriggers } from "./partner-provocations.ts";
import { type PartnerContractWorld, startPartnerContractWorld } from "./partner-world.ts";

/** Provokes each documented status of each partner operation, and compares the response with the document. */
describe("responses of the partner API", function () {
  this.timeout(120_000);
  let world: PartnerContractWorld;

  before(async () => {
    world = await startPartnerContractWorld();
  });

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

      for (const [status, sendRequest] of Object.entries(operationTriggers)) {
        it(`the partner operation ${operationId} returns ${status} as documented`, async () => {
          const response = await sendRequest(world);
          expect(response.status, response.text).to.equal(Number(status));
          partnerResponseChecker.checkResponse(documentedOperation, response);
        });
      }
    });
  }
});
