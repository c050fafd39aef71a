import type { Decision } from "../aggregate.ts";
import { DomainError, type ErrorDetail } from "../domain-error.ts";
import { isEqual } from "../equal.ts";
import type { DataOf } from "../events/category.ts";
import {
  type EncryptedHeader,
  operationalEventType,
  subscribedEventType,
  type WebhookEndpointEvent,
} from "../events/partner.ts";
import { type Endpoint, requireNotRevoked } from "./webhook-endpoint.ts";

/** Maximum number of custom headers of an endpoint. */
export const MAX_HEADERS = 8;

type EndpointSettings = Omit<DataOf<WebhookEndpointEvent, "WebhookEndpointChanged">, "endpointId">;

/** Requested changes of an endpoint. Settings that are absent or undefined remain unchanged. */
export type EndpointChanges = {
  [Name in Exclude<keyof EndpointSettings, "headers">]?: EndpointSettings[Name] | undefined;
} & {
  /**
   * Encrypted values of the headers to add or replace, by name. A null value removes the header. Null instead of an
   * object removes all headers.
   */
  headers?: Readonly<Record<string, string | null>> | null | undefined;
};

/**
 * Changes settings of an endpoint. Settings that already have the requested value do not count as changes.
 *
 * If the origin of the URL changes, the endpoint keeps only the custom headers in this change. The others are secrets
 * of the former receiver.
 *
 * @param permittedBranchIds branches that the endpoint may be limited to
 * @throws {DomainError} `validation_failed` with details, `webhook_endpoint_revoked`
 */
export function changeEndpoint(
  changes: EndpointChanges,
  permittedBranchIds: readonly string[],
): Decision<Endpoint, WebhookEndpointEvent> {
  return (state) => {
    const endpoint = requireNotRevoked(state);
    const { url = endpoint.url, events, operationalEvents, branchIds } = changes;
    const isSameOrigin = new URL(url).origin === new URL(endpoint.url).origin;
    requireEventType(events ?? endpoint.events, operationalEvents ?? endpoint.operationalEvents);
    const requestedSettings = {
      ...changes,
      events: events && sortTypes(events, subscribedEventType.options),
      operationalEvents: operationalEvents && sortTypes(operationalEvents, operationalEventType.options),
      branchIds: branchIds && sortPermitted(branchIds, permittedBranchIds),
      headers: mergeHeaders(isSameOrigin ? endpoint.headers : [], changes.headers),
    };
    const changedSettings: EndpointSettings = Object.fromEntries(
      Object.entries(requestedSettings).filter(
        ([name, value]) => value !== undefined && !isEqual(value, endpoint[name as keyof Endpoint]),
      ),
    );
    if (Object.keys(changedSettings).length === 0) return [];
    return [{ type: "WebhookEndpointChanged", data: { endpointId: endpoint.id, ...changedSettings } }];
  };
}

/** Requires at least one event type, because an endpoint without event types would receive nothing. */
function requireEventType(...typeLists: readonly string[][]): void {
  if (typeLists.some((types) => types.length > 0)) return;
  const message = "must contain at least one event type, unless the endpoint receives operational events";
  throw createValidationError("the endpoint has no event type", [{ path: "events", message }]);
}

/** Sorts event types in the order of their declaration, and removes duplicates. */
function sortTypes<Type extends string>(types: readonly Type[], declaredTypes: readonly Type[]): Type[] {
  return declaredTypes.filter((type) => types.includes(type));
}

function sortPermitted(branchIds: readonly string[], permittedBranchIds: readonly string[]): string[] {
  const details = branchIds.flatMap((id, index): ErrorDetail[] =>
    permittedBranchIds.includes(id)
      ? []
      : [{ path: `branchIds.${index}`, message: "must be a branch that the installation covers" }],
  );
  if (details.length > 0) throw createValidationError("a branch is not covered by the installation", details);
  return [...new Set(branchIds)].sort();
}

/** Applies changes to headers. Names are compared without regard to case. */
function mergeHeaders(headers: readonly EncryptedHeader[], changes: EndpointChanges["headers"]): EncryptedHeader[] {
  if (changes === null) return [];
  const headersByName = new Map(headers.map((header) => [header.name.toLowerCase(), header]));
  for (const [name, encryptedValue] of Object.entries(changes ?? {})) {
    if (encryptedValue === null) headersByName.delete(name.toLowerCase());
    else headersByName.set(name.toLowerCase(), { name, encryptedValue });
  }
  if (headersByName.size > MAX_HEADERS) {
    const message = `must leave at most ${MAX_HEADERS} headers`;
    throw createValidationError("there are too many headers", [{ path: "headers", message }]);
  }
  return [...headersByName.values()];
}

function createValidationError(message: string, details: ErrorDetail[]): DomainError {
  return new DomainError("validation_failed", message, details);
}
