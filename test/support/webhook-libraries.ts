import { Webhook as StandardWebhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";

/** Public libraries that partners use to verify deliveries. Each throws an error if it does not accept a delivery. */
export const webhookLibraries = { standardwebhooks: StandardWebhook, svix: SvixWebhook } as const;

export type WebhookLibrary = keyof typeof webhookLibraries;

export const webhookLibraryNames = Object.keys(webhookLibraries) as WebhookLibrary[];

/** Returns the names of the libraries that accept the signature of a delivery. */
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
