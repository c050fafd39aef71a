import { expect } from "chai";
import { partnerReads } from "../../../query-api/partner/reads.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";

/** Tables with data that an installation's animal access can hide. */
const TABLES = [`${READ_MODEL_SCHEMA}.appointment `, `${READ_MODEL_SCHEMA}.public_event`, "webhooks.delivery "];

describe("the animal access of an installation", () => {
  it("every statement that reads appointments, events or deliveries for a partner checks the links", () => {
    const allStatements = partnerReads.flatMap(({ operationId, sql, alternative }) => [
      { operationId, sql },
      ...(alternative ? [{ operationId: `${operationId} alternative`, sql: alternative.sql }] : []),
    ]);
    const statements = allStatements.filter(({ sql }) => TABLES.some((table) => sql.includes(table)));
    expect(statements.map(({ operationId }) => operationId)).to.include.members([
      "listPartnerAppointments",
      "getPartnerAppointment",
      "listEvents",
      "listWebhookDeliveries",
      "getWebhookDelivery",
    ]);
    const unchecked = statements.filter(({ sql }) => !sql.includes(`${READ_MODEL_SCHEMA}.animal_link l`));
    // An installation cannot limit the animals of a sandbox.
    expect(unchecked.map(({ operationId }) => operationId)).to.eql(["getSandboxState"]);
  });
});
