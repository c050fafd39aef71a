import { Webhook as StandardWebhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";

/** Unmodified libraries that partners use to verify deliveries. Each throws if it does not accept a delivery. */
export const webhookLibraries = { standardwebhooks: StandardWebhook, svix: SvixWebhook } as const;

export type WebhookLibrary = keyof typeof webhookLibraries;

export const webhookLibraryNames = Object.keys(webhookLibraries) as WebhookLibrary[];

/** Names of the libraries that accept a delivery by a secret. */
export function listAcceptingLibraries(
  secret: string,
  { body, headers }: { body: string; headers: Record<string, unknown> },
): WebhookLibrary[] {
  return webhookLibraryNames.filter((name) => {
    try {
      new webhookLibraries[name](secret).verify(body, headers as Record<string, string>);
      return true;
    } catch {
      return false;
    }
  });
}
