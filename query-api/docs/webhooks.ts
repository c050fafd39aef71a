import { deliveredEventType } from "../../shared/domain/events/partner.ts";
import { defineCloudEvent, formatWebhookBody, WEBHOOK_CONTENT_TYPES } from "../../shared/partner-api/cloud-event.ts";
import { publicEvents } from "../../shared/partner-api/public-events.ts";
import { eventBodies } from "../../shared/partner-api/webhook-body.ts";
import {
  type Content,
  capitalize,
  describeHeaderParameter,
  type Operation,
  type Parameter,
  type PathItem,
  readExamples,
  toContent,
} from "./openapi.ts";
import { webhookTag } from "./partner-operation.ts";

const { events } = readExamples("partner");

const deliveredEvents = deliveredEventType.options.map((type) => ({ type, ...publicEvents[type] }));

/** Schemas of the webhook bodies in CloudEvents format, by schema name in the OpenAPI document. */
export const cloudEvents = Object.fromEntries(
  deliveredEvents.map(({ body }) => [toCloudEventName(body), defineCloudEvent(eventBodies[body])]),
);

/** Returns a name such as `AppointmentCloudEvent`. */
function toCloudEventName(bodyName: string): string {
  return bodyName.replace(/Event$/, "CloudEvent");
}

function describeCloudEvent(bodyName: keyof typeof eventBodies, type: string): Content {
  const example = events[type];
  const cloudEvent = example && JSON.parse(formatWebhookBody(JSON.stringify(example), "cloudevents").body);
  return toContent(toCloudEventName(bodyName), cloudEvent, WEBHOOK_CONTENT_TYPES.cloudevents);
}

const verificationText = `Verify the signature over the raw bytes of the body. The signature follows Standard Webhooks:
HMAC-SHA256 of \`id.timestamp.body\`. Reject timestamps older than five minutes. Deduplicate by the delivery id, which
stays the same for all retries and replays. Respond with any 2xx status within ten seconds. If you respond with 410,
the service disables the endpoint. After any other response, the service retries the delivery. The header
\`Retry-After\` lengthens the wait, up to 24 hours.

The service disables an endpoint (\`disabledReason: no_success\`) after a failure period of five days. In this period
no attempt succeeds, at least ten attempts fail, and consecutive failures are at most two days apart. A successful
attempt resets the period. Enabling the endpoint also resets the period.`;

const limitsText = `The service waits up to five seconds for the connection, including DNS lookup and TLS handshake. Then
it waits up to ten seconds for the status and headers of the response. The body has no effect on the result. If you
close a kept-alive connection before the response begins, the service sends the request once more on a new connection,
with the same delivery id.`;

/**
 * Describes the requests that the service sends to webhook endpoints.
 *
 * @param brand brand in header names, as in `X-<brand>-Clinic-ID`
 */
export function describeWebhooks(brand: string): Record<string, PathItem> {
  const parameters = describeDeliveryHeaders(brand);
  const items = deliveredEvents.flatMap(({ type, title: summary, body: bodyName, text: eventText }) => {
    const operationId = `on${type.split(".").map(capitalize).join("")}`;
    const formatText = `If the endpoint has the setting \`bodyFormat: cloudevents\`, the body has the schema \`${toCloudEventName(bodyName)}\`.`;
    const description = [verificationText, limitsText, formatText, eventText].join("\n\n");
    const cloudEventText = `The event \`${type}\` to an endpoint with the setting \`bodyFormat: cloudevents\`.`;
    const delivery = { operationId, summary, parameters, description };
    const cloudEventDelivery = {
      ...delivery,
      operationId: `${operationId}CloudEvent`,
      description: cloudEventText,
      // The reference shows each event once. Generators need a body with one media type.
      "x-scalar-ignore": true,
    };
    return [
      [type, describeDelivery(delivery, toContent(bodyName, events[type]))],
      [`${type} (CloudEvent)`, describeDelivery(cloudEventDelivery, describeCloudEvent(bodyName, type))],
    ];
  });
  return Object.fromEntries(items);
}

function describeDelivery(
  operation: Pick<Operation, "operationId" | "summary" | "parameters" | "description" | "x-scalar-ignore">,
  content: Content,
): PathItem {
  const goneText = "The endpoint is gone. The service stops the delivery and disables the endpoint.";
  return {
    post: {
      ...operation,
      tags: [webhookTag.name],
      security: [],
      requestBody: { required: true, content },
      responses: {
        "2XX": { description: "The receiver accepted the delivery.", headers: {} },
        "410": { description: goneText, headers: {} },
      },
    },
  };
}

/** Describes the headers of a delivery. Id, timestamp and signature are sent under a branded and a standard name. */
function describeDeliveryHeaders(brand: string): Parameter[] {
  const idText = "Id of the delivery.";
  const timestampText = "Time at which this attempt was signed, as Unix time in seconds.";
  const signatureText =
    "The prefix `v1,` and the signature in base64. After a secret rotation, the header can contain several signatures, separated by spaces. If the endpoint has the setting `asymmetricSignature`, it also contains an Ed25519 signature with the prefix `v1a,`.";
  const traceText = "W3C trace context of this attempt, if the operator traces requests. It is not signed.";
  return [
    describeHeaderParameter(`X-${brand}-Signature`, signatureText),
    describeHeaderParameter(`X-${brand}-Timestamp`, timestampText, { type: "integer" }),
    describeHeaderParameter(`X-${brand}-Delivery-ID`, idText),
    describeHeaderParameter("webhook-signature", signatureText),
    describeHeaderParameter("webhook-timestamp", timestampText, { type: "integer" }),
    describeHeaderParameter("webhook-id", idText),
    describeHeaderParameter("traceparent", traceText, { type: "string" }, false),
  ];
}
