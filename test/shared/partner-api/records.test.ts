import { expect } from "chai";
import { z } from "zod";
import { readExamples } from "../../../query-api/docs/openapi.ts";
import { listedDelivery } from "../../../query-api/partner/webhook-deliveries.ts";
import { defineRecord } from "../../../shared/partner-api/define-record.ts";
import {
  publicAppointment,
  publicInstallation,
  publicLink,
  publicSandbox,
  webhookEndpoint,
  webhookEndpointDetail,
  webhookReplay,
} from "../../../shared/partner-api/records.ts";

const { operations } = readExamples("partner");

// biome-ignore lint/suspicious/noExplicitAny: each record checks its example
const getResponse = (operationId: string) => operations[operationId]?.response as any;

describe("the records of the partner API", () => {
  for (const [name, { schema }, examples] of [
    ["appointment", publicAppointment, [getResponse("getPartnerAppointment").appointment]],
    ["created appointment", publicAppointment, [getResponse("createPartnerAppointment").appointment]],
    ["appointments", publicAppointment, getResponse("listPartnerAppointments").appointments],
    ["links", publicLink, getResponse("listAnimalLinks").links],
    ["created link", publicLink, [getResponse("linkAnimal").link]],
    ["installations", publicInstallation, getResponse("listInstallations").installations],
    ["sandbox", publicSandbox, [getResponse("getSandboxState").sandbox]],
    ["sandbox after its reset", publicSandbox, [getResponse("resetSandbox").sandbox]],
    ["created endpoint", webhookEndpoint, [getResponse("createWebhookEndpoint").endpoint]],
    ["changed endpoint", webhookEndpointDetail, [getResponse("updateWebhookEndpoint").endpoint]],
    ["deliveries", listedDelivery, getResponse("listWebhookDeliveries").deliveries],
    ["requested replay", webhookReplay, [getResponse("replayWebhookDeliveries").replay]],
    ["replay", webhookReplay, [getResponse("getWebhookReplay").replay]],
  ] as const) {
    it(`the recorded ${name} has exactly the declared fields, in their order`, () => {
      expect(examples).to.have.length.at.least(1);
      for (const example of examples) {
        (schema as z.ZodType).parse(example);
        expect(Object.keys(example)).to.deep.equal(Object.keys(schema.shape));
      }
    });
  }

  it("schema, SQL and the conversion of rows follow from a declaration", () => {
    const record = defineRecord(
      "a",
      { id: z.guid(), createdAt: z.iso.datetime().nullable(), count: z.int(), notes: z.string() },
      { id: "object_id", count: "(SELECT 1)" },
    );
    expect(record.sql).to.equal(
      "json_build_object('id', a.object_id, 'createdAt', rfc3339(a.created_at), 'count', (SELECT 1), 'notes', a.notes)",
    );
    const [row, values] = [
      { object_id: "1", created_at: null, other: 2 },
      { id: "1", createdAt: null, count: 2 },
    ];
    expect(record.fromRow(row)).to.deep.equal({ id: "1", createdAt: null });
    expect(record.pick({ ...values, notes: "n", more: 1 } as never)).to.deep.equal({ ...values, notes: "n" });
    const extended = record.omit("notes", "count").extend({ endsAt: z.iso.datetime() }, { endsAt: "now()" });
    expect(extended.sql).to.equal(
      "json_build_object('id', a.object_id, 'createdAt', rfc3339(a.created_at), 'endsAt', rfc3339(now()))",
    );
    expect(Object.keys(extended.schema.shape)).to.deep.equal(["id", "createdAt", "endsAt"]);
  });
});
