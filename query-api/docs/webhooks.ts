import { defineCloudEvent, formatWebhookBody, WEBHOOK_CONTENT_TYPES } from "../../shared/partner-api/cloud-event.ts";
import { animalLinkBody, installationBody } from "../../shared/partner-api/feed-event.ts";
import {
  appointmentBody,
  endpointDisabledBody,
  endpointFailingBody,
  endpointTestBody,
  secretExpiringBody,
} from "../../shared/partner-api/webhook-body.ts";
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

/** By schema name in the OpenAPI document. */
export const webhookBodies = {
  AppointmentEvent: appointmentBody,
  TestEvent: endpointTestBody,
  EndpointFailingEvent: endpointFailingBody,
  EndpointDisabledEvent: endpointDisabledBody,
  SecretExpiringEvent: secretExpiringBody,
  InstallationEvent: installationBody,
  AnimalLinkEvent: animalLinkBody,
};

const { events } = readExamples("partner");

/** By schema name in the OpenAPI document. */
export const cloudEvents = Object.fromEntries(
  Object.entries(webhookBodies).map(([name, body]) => [toCloudEventName(name), defineCloudEvent(body)]),
);

/** Returns a name such as `AppointmentCloudEvent`. */
function toCloudEventName(bodyName: string): string {
  return bodyName.replace(/Event$/, "CloudEvent");
}

function describeCloudEvent(bodyName: keyof typeof webhookBodies, type: string): Content {
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

const orderText = `**Order.** By default, deliveries can arrive in any order. The service sends several deliveries at the
same time, and a retry or replay can arrive after newer events. If the endpoint has the setting \`ordering: appointment\`,
an event is sent only after the deliveries of all earlier events of the same appointment have ended. Replays arrive out
of order in any case. Every event contains the appointment's state after that event,
and the revision of this state in \`data.appointment.revision\`. Each change increases the revision. Revisions can
have gaps, because some changes send no event. Store the highest revision for each appointment id, and discard events
with the same or a lower revision. For example, in SQL:

\`\`\`sql
INSERT INTO appointment (id, revision, record) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET revision = $2, record = $3
WHERE appointment.revision < $2
\`\`\`

\`GET /appointments\` returns the same revisions, so you can merge lists and events with the same rule. A sandbox
reset replaces all appointments. After a reset, delete the revisions that you stored for the sandbox.`;

const noRevisionText = `A test event contains no appointment and no revision.`;

const recipientsText = `This event is sent to endpoints of the same application at the same clinic, if their setting
\`operationalEvents\` contains its type. If the endpoint belongs to the application, the event is sent to other
endpoints that belong to the application, and \`clinicId\` is null. It contains no appointment and no revision.`;

const failingText = `The endpoint has been failing for at least five minutes, with at least three failed attempts and no
success. The event is sent at most once per endpoint and day (UTC), and never to the failing endpoint itself.

${recipientsText}`;

const disabledText = `The endpoint was disabled, for the reason in \`data.reason\`. The event is never sent to the
disabled endpoint itself.

${recipientsText}`;

const expiringText = `After a secret rotation, deliveries are also signed with the former secret for 24 hours. This event
is sent once, about six hours before the former secret expires. If you see it and still verify with the former secret,
switch to the new secret. A former secret that expires immediately, because it has leaked, sends no event.

${recipientsText}`;

const accessText = `This event is sent only to endpoints that belong to the application, for all its clinics.
\`clinicId\` names the clinic. Deliveries can arrive in any order, so keep the event with the latest \`createdAt\` for
each clinic or link.`;

const deliveredEvents: readonly (readonly [string, string, keyof typeof webhookBodies, string])[] = [
  ["appointment.created", "An appointment was created", "AppointmentEvent", orderText],
  ["appointment.updated", "An appointment was changed", "AppointmentEvent", orderText],
  ["endpoint.test", "You requested a test event", "TestEvent", noRevisionText],
  ["endpoint.failing", "An endpoint keeps failing", "EndpointFailingEvent", failingText],
  ["endpoint.disabled", "An endpoint was disabled", "EndpointDisabledEvent", disabledText],
  ["secret.expiring", "A former signing secret expires soon", "SecretExpiringEvent", expiringText],
  ["installation.approved", "A clinic approved your application", "InstallationEvent", accessText],
  ["installation.access_changed", "A clinic changed your application's access", "InstallationEvent", accessText],
  ["installation.revoked", "A clinic revoked your application's access", "InstallationEvent", accessText],
  ["animal_link.withdrawn", "A link to an animal ended", "AnimalLinkEvent", accessText],
];

/**
 * Describes the requests that the service sends to webhook endpoints.
 *
 * @param brand brand in header names, as in `X-<brand>-Clinic-ID`
 */
export function describeWebhooks(brand: string): Record<string, PathItem> {
  const parameters = describeDeliveryHeaders(brand);
  const items = deliveredEvents.flatMap(([type, summary, bodyName, eventText]) => {
    const operationId = `on${type.split(".").map(capitalize).join("")}`;
    const description = [verificationText, limitsText, eventText].join("\n\n");
    const cloudEventText = `The event \`${type}\` to an endpoint with the setting \`bodyFormat: cloudevents\`.`;
    const delivery = { operationId, summary, parameters, description };
    const cloudEventDelivery = {
      ...delivery,
      operationId: `${operationId}CloudEvent`,
      description: cloudEventText,
    };
    return [
      [type, describeDelivery(delivery, toContent(bodyName, events[type]))],
      [`${type} (CloudEvent)`, describeDelivery(cloudEventDelivery, describeCloudEvent(bodyName, type))],
    ];
  });
  return Object.fromEntries(items);
}

function describeDelivery(
  operation: Pick<Operation, "operationId" | "summary" | "parameters" | "description">,
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

/** Each value of the signature is sent under the brand's name and the standard name. */
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
