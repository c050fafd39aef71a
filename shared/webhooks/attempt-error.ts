import type { DestinationFault } from "./destination.ts";

/**
 * Error codes of delivery attempts, with descriptions for partners. Existing codes never change, but new codes may be
 * added.
 */
export const attemptErrors = {
  lookup_failed: "The host name could not be resolved, or has no address. The request was not sent.",
  connection_refused: "The receiver refused the connection. The request was not sent.",
  connection_timeout:
    "The connection, including the TLS handshake, was not established in time. The request was not sent.",
  connection_failed: "The connection failed for another reason, such as an unreachable network.",
  connection_lost: "The receiver closed the connection before the response's headers were complete.",
  tls_failed: "The TLS handshake failed, for example because of an expired certificate. The request was not sent.",
  timeout: "The request was sent, but the response's headers were not complete in time.",
  invalid_response: "The response's headers are not valid HTTP/1.1.",
  malformed_url: "The endpoint's URL is malformed. The request was not sent.",
  scheme_not_allowed: "The endpoint's URL is not https. The request was not sent.",
  user_info_not_allowed: "The endpoint's URL contains a user name or password. The request was not sent.",
  fragment_not_allowed: "The endpoint's URL contains a fragment. The request was not sent.",
  port_not_allowed: "The endpoint's URL has a port other than 443 and 8443. The request was not sent.",
  host_not_allowed: "The endpoint's host is not a public name. The request was not sent.",
  address_not_public: "The host name has an address that is not public. The request was not sent.",
  event_unavailable: "The service could not read the event. The request was not sent.",
  not_signed: "The service could not sign the delivery. The request was not sent.",
  egress_proxy_failed: "The service's outgoing proxy opened no connection. The request was not sent.",
} as const satisfies Record<DestinationFault, string> & Record<string, string>;

export type AttemptError = keyof typeof attemptErrors;

/** Errors whose cause is in this service, not at the receiver. */
export const serviceErrors: ReadonlySet<AttemptError> = new Set([
  "event_unavailable",
  "not_signed",
  "egress_proxy_failed",
]);
