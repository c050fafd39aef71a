import { Webhook as StandardWebhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";

/** Public libraries with which partners verify webhooks. Each library throws an error if it rejects a webhook. */
export const webhookLibraries = { standardwebhooks: StandardWebhook, svix: SvixWebhook } as const;

export type WebhookLibrary = keyof typeof webhookLibraries;

export const webhookLibraryNames = Object.keys(webhookLibraries) as WebhookLibrary[];

/** Returns the names of the libraries that accept a delivery's signature. */
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
