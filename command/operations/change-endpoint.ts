import type { SecretBox } from "../../shared/auth/secret-box.ts";
import type { EncryptedHeader } from "../../shared/domain/events/partner.ts";
import { decideChangeEndpoint, type EndpointChanges } from "../../shared/domain/partner/change-endpoint.ts";
import { type Endpoint, endpointAggregate, requireOwnEndpoint } from "../../shared/domain/partner/webhook-endpoint.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { type CommandContext, type CommandResult, loadAggregate } from "../handling/handle.ts";
import { type EndpointReference, handleOwnEndpoint } from "./webhook-endpoint-operations.ts";

/** Requested changes of an endpoint and the branches to which it may be limited. The values of headers are plain text. */
export interface EndpointChangeRequest extends EndpointReference {
  changes: EndpointChanges;
  permittedBranchIds: readonly string[];
}

/**
 * Changes settings of an endpoint. The caller must check that the URL is safe and approved.
 *
 * @throws {DomainError} `webhook_endpoint_not_found`, `webhook_endpoint_revoked`, `validation_failed`
 */
export async function changeEndpoint(
  { log, secretBox }: { log: EventLog; secretBox: SecretBox },
  { changes, permittedBranchIds, ...reference }: EndpointChangeRequest,
  context: CommandContext,
): Promise<CommandResult<Endpoint>> {
  const { headers } = changes;
  const encryptedHeaders = headers && (await encryptHeaders({ log, secretBox }, headers, reference));
  const decide = decideChangeEndpoint({ ...changes, headers: encryptedHeaders }, permittedBranchIds);
  return handleOwnEndpoint(log, reference, decide, context);
}

/**
 * Encrypts the values of headers. A value that the endpoint already has keeps its ciphertext, so that repeating a
 * request changes nothing. A value that was encrypted with a former key is encrypted again.
 */
async function encryptHeaders(
  { log, secretBox }: { log: EventLog; secretBox: SecretBox },
  headers: Readonly<Record<string, string | null>>,
  { endpointId, owner }: EndpointReference,
): Promise<Record<string, string | null>> {
  const { state } = await loadAggregate(log, endpointAggregate, endpointId);
  const { headers: storedHeaders } = requireOwnEndpoint(state, owner);
  const entries = Object.entries(headers).map(async ([name, value]) => {
    if (value === null) return [name, null];
    const storedHeader = storedHeaders.find((header) => header.name === name);
    const isStored = storedHeader && (await hasValue(secretBox, storedHeader, value));
    return [name, isStored ? storedHeader.encryptedValue : await secretBox.seal(value)];
  });
  return Object.fromEntries(await Promise.all(entries));
}

/** Returns true if a stored header has the value, and its value was encrypted with the current key. */
async function hasValue(secretBox: SecretBox, { encryptedValue }: EncryptedHeader, value: string): Promise<boolean> {
  return secretBox.isSealedWithCurrentKey(encryptedValue) && (await secretBox.open(encryptedValue)) === value;
}
