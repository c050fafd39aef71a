import { z } from "zod";
import { environment } from "../../shared/domain/events/fields.ts";
import { webhookEventType } from "../../shared/domain/events/partner.ts";
import { partnerAppointment } from "../../shared/partner-api/appointment-record.ts";
import type { AppointmentBody, TestBody } from "../../shared/partner-api/webhook-body.ts";
import { schemaRef } from "./json-schema.ts";
import type { Operation, Parameter, PathItem } from "./openapi.ts";
import { sectionOf } from "./partner-sections.ts";

const envelope = {
  id: z.guid().meta({ description: "The event's id, the same for every endpoint that hears of it." }),
  apiVersion: z.literal("v1"),
  createdAt: z.iso.datetime({ precision: 3 }),
  environment,
  clinicId: z.guid(),
};

/** The bodies of deliveries, by their names among the document's schemas. */
export const webhookBodies = {
  AppointmentEvent: z.strictObject({
    ...envelope,
    type: webhookEventType,
    branchId: z.guid(),
    data: z.strictObject({ appointment: partnerAppointment.omit({ notes: true }) }),
  }) satisfies z.ZodType<AppointmentBody>,
  TestEvent: z.strictObject({
    ...envelope,
    type: z.literal("endpoint.test"),
    branchId: z.null(),
    data: z.strictObject({ test: z.literal(true) }),
  }) satisfies z.ZodType<TestBody>,
};

const verification = `Verify the signature over the body's bytes as they came (Standard Webhooks: HMAC-SHA256 of
\`id.timestamp.body\`), reject a timestamp older than five minutes, and deduplicate by the delivery's id, which stays
the same over retries and replays. Answer with any 2xx within ten seconds; anything else is tried again.

The service disables an endpoint (\`disabledReason: no_success\`) after five days of repeated failures: no success, at
least ten failed attempts, and never more than two days between two of them. A success, or enabling the endpoint,
starts a new period. The operator enables it again.`;

const limits = `The service waits five seconds for a connection, the look-up of the name and the TLS handshake included,
and from then on ten seconds for the complete answer. If you close a kept-alive connection while a request is on its way,
the service sends that request once more on a new connection, with the same delivery id.`;

const order = `**Order.** Deliveries arrive in no guaranteed order. Several are sent at the same time, and a retry or a replay
may arrive after newer events. Every event carries the appointment as it was after that event, with its revision in
\`data.appointment.revision\`. Revisions of an appointment increase with each change. They have gaps, since some changes
send no event. Keep the highest revision that you have seen for each appointment id, and discard an event whose revision
is not higher. For example, in one SQL statement:

\`\`\`sql
INSERT INTO appointment (id, revision, record) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET revision = $2, record = $3
WHERE appointment.revision < $2
\`\`\`

\`GET /appointments\` returns the same revisions, so a list can be combined with events in the same way.
A reset of the sandbox replaces all of its appointments: forget the revisions that you hold of it.`;

const noRevision = `A test carries no appointment and no revision.`;

/**
 * What the service sends to webhook endpoints.
 *
 * @param brand the segment of the header names
 */
export function webhookItems(brand: string): Record<string, PathItem> {
  const item = (name: string, summary: string, body: keyof typeof webhookBodies): [string, PathItem] => {
    const about = body === "TestEvent" ? noRevision : order;
    const description = [verification, limits, about].join("\n\n");
    return [name, { post: delivery(name, { summary, description, body, headers: deliveryHeaders(brand) }) }];
  };
  return Object.fromEntries([
    item("appointment.created", "An appointment was requested", "AppointmentEvent"),
    item("appointment.updated", "An appointment was changed", "AppointmentEvent"),
    item("endpoint.test", "A test was asked for", "TestEvent"),
  ]);
}

function delivery(
  name: string,
  texts: { summary: string; description: string; body: string; headers: Parameter[] },
): Operation {
  const { summary, description, body, headers } = texts;
  const [subject = "", verb = ""] = name.split(".");
  return {
    operationId: `on${capital(subject)}${capital(verb)}`,
    tags: [sectionOf("/webhook-endpoints")],
    summary,
    description,
    security: [],
    parameters: headers,
    requestBody: { required: true, content: { "application/json": { schema: { $ref: schemaRef(body) } } } },
    responses: {
      "2XX": { description: "Taken.", headers: {} },
      "410": { description: "No more, please: the endpoint is disabled.", headers: {} },
    },
  };
}

/** Each under the brand's name and under the scheme's own. */
function deliveryHeaders(brand: string): Parameter[] {
  const header = (name: string, description: string, type = "string"): Parameter => ({
    ...{ name, in: "header", required: true, description },
    schema: { type },
  });
  const id = "The delivery's id.";
  const timestamp = "When this attempt was signed, in seconds since 1970.";
  const signature =
    "`v1,` and the signature in base64; two, separated by a space, while a secret is rotated.";
  return [
    header(`X-${brand}-Signature`, signature),
    header(`X-${brand}-Timestamp`, timestamp, "integer"),
    header(`X-${brand}-Delivery-ID`, id),
    header("webhook-signature", signature),
    header("webhook-timestamp", timestamp, "integer"),
    header("webhook-id", id),
  ];
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
