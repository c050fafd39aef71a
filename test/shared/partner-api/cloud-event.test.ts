import { expect } from "chai";
import { readExamples } from "../../../query-api/docs/openapi.ts";
import { cloudEvents } from "../../../query-api/docs/webhooks.ts";
import { formatWebhookBody } from "../../../shared/partner-api/cloud-event.ts";

const { events } = readExamples("partner");

describe("the formats of webhook bodies", () => {
  it("the standard format keeps the bytes of the body", () => {
    const body = '{"id": 1.0}';
    expect(formatWebhookBody(body, "standard")).to.deep.equal({ body, contentType: "application/json" });
  });

  for (const [type, event] of Object.entries(events))
    it(`a CloudEvent of the type ${type} has the same data and matches its documented schema`, () => {
      const { body } = formatWebhookBody(JSON.stringify(event), "cloudevents");
      const cloudEvent = JSON.parse(body);
      const matchingSchemas = Object.values(cloudEvents).filter((schema) => schema.safeParse(cloudEvent).success);
      expect(matchingSchemas).to.have.length(1);
      expect(cloudEvent.data).to.deep.equal((event as { data: unknown }).data);
      expect(Object.values(cloudEvent)).to.not.include(null);
    });
});
