import { randomUUID } from "node:crypto";
import type { Environment } from "../../shared/domain/events/fields.ts";
import { deriveInstallationId } from "../../shared/domain/events/ids.ts";
import { type AnimalAccess, type Scope, scopes } from "../../shared/domain/events/partner.ts";
import type { GivenEvent } from "./read-models.ts";

/** An application with one credential. */
export interface TestApplication {
  applicationId: string;
  credentialId: string;
  environment: Environment;
}

export async function registerApplication(
  given: (...events: GivenEvent[]) => Promise<void>,
  environment: Environment = "production",
): Promise<TestApplication> {
  const application = { applicationId: randomUUID(), credentialId: randomUUID(), environment };
  const { applicationId, credentialId } = application;
  await given(
    { type: "ApplicationRegistered", data: { applicationId, environment, name: "Pet Diary", scopes: [...scopes] } },
    { type: "CredentialIssued", data: { applicationId, credentialId, secretHash: "0".repeat(64) } },
  );
  return application;
}

export function installationApproved(
  { applicationId }: TestApplication,
  clinicId: string,
  fields: {
    scopes?: Scope[];
    branchIds?: string[] | null;
    rateLimitPerMinute?: number;
    animalAccess?: AnimalAccess;
  } = {},
): GivenEvent {
  return {
    type: "InstallationApproved",
    data: {
      installationId: deriveInstallationId(applicationId, clinicId),
      applicationId,
      clinicId,
      approvedBy: randomUUID(),
      rateLimitPerMinute: 1_000,
      scopes: [...scopes],
      branchIds: null,
      animalAccess: "all",
      ...fields,
    },
  };
}

export function endpointRegistered(
  { applicationId, environment }: TestApplication,
  clinicId: string,
  endpointId: string,
): GivenEvent {
  return {
    type: "WebhookEndpointRegistered",
    data: {
      endpointId,
      applicationId,
      clinicId,
      environment,
      url: "https://example.com/hook",
      events: ["appointment.created"],
      secretId: randomUUID(),
      encryptedSecret: "encrypted",
    },
  };
}

/** Creates the event that requests the replay of all failed and skipped deliveries of an endpoint since 2026. */
export function replayRequested(
  { applicationId, environment }: TestApplication,
  clinicId: string,
  endpointId: string,
  replayId: string,
): GivenEvent {
  return {
    type: "WebhookReplayRequested",
    data: {
      ...{ replayId, endpointId, applicationId, clinicId, environment, deliveryIds: null },
      ...{ since: "2026-01-01T00:00:00.000Z", until: "2026-03-01T00:00:00.000Z", statuses: ["failed", "skipped"] },
      requestHash: "0".repeat(64),
    },
  };
}
