import { readFileSync } from "node:fs";
import path from "node:path";

/**
 * Builds the sections of the partner document's introduction that do not belong to one operation. Renderers show them above the
 * operations.
 *
 * @param brand brand in header names, as in `X-<brand>-Signature`
 * @param baseUrl base URL of the sandbox
 */
export function buildPartnerGuides(brand: string, baseUrl: string): string {
  return `## Quickstart

Create an appointment in your sandbox with curl and jq. First set the shell variables \`CLIENT_ID\` and
\`CLIENT_SECRET\` to the credentials of your sandbox application. Then paste the three blocks into the same shell.

### 1. Get a token

\`\`\`sh
API=${baseUrl}
TOKEN=$(curl -s "$API/oauth/token" -u "$CLIENT_ID:$CLIENT_SECRET" \\
  -d grant_type=client_credentials | jq -r '.access_token // error(.error)')
\`\`\`

### 2. Find the clinic, a branch and an animal

\`\`\`sh
SANDBOX=$(curl -s "$API/sandbox" -H "Authorization: Bearer $TOKEN" | jq '.sandbox // error(.error)')
CLINIC_ID=$(echo "$SANDBOX" | jq -r .clinicId)
BRANCH_ID=$(echo "$SANDBOX" | jq -r '.branches[0].id')
ANIMAL_ID=$(echo "$SANDBOX" | jq -r '.animals[0].id')
\`\`\`

### 3. Create an appointment

Choose one idempotency key for each booking. If no response arrives, repeat the command with the same key.

\`\`\`sh
IDEMPOTENCY_KEY=booking-$(date +%s)
BODY=$(jq -n --arg branch "$BRANCH_ID" --arg animal "$ANIMAL_ID" \\
  '{branchId: $branch, animalId: $animal, scheduledAt: (now + 86400 | todate)}')
curl -s "$API/appointments" \\
  -H "Authorization: Bearer $TOKEN" \\
  -H "X-${brand}-Clinic-ID: $CLINIC_ID" \\
  -H "Idempotency-Key: $IDEMPOTENCY_KEY" \\
  -H "Content-Type: application/json" \\
  -d "$BODY"
\`\`\`

The curl commands of the operations use the same variables. Set the others that a command names, such as \`ENDPOINT_ID\`
or \`WEBHOOK_URL\`, to the ids and URLs of your own objects.

## Verify a signature

The signature of a webhook is the HMAC-SHA256 of \`<webhook-id>.<webhook-timestamp>.<body>\`, in base64. The key is the
part of the secret after \`whsec_\`, decoded from base64. The header \`webhook-signature\` contains \`v1,<signature>\`,
and after a rotation several of them, separated by spaces. \`X-${brand}-Signature\` has the same value. Reject
timestamps older than five minutes, and deduplicate by \`webhook-id\`.

Libraries of [Standard Webhooks](https://www.standardwebhooks.com) do the same. The following functions need no library.
Their parameters are the secret, the headers \`webhook-id\`, \`webhook-timestamp\` and \`webhook-signature\`, and the
body as received, before it is parsed.

${readSignatureExamples()}

## Limits

Each installation has a rate limit, by default 120 requests per minute. \`RateLimit-Limit\`, \`RateLimit-Remaining\` and
\`RateLimit-Reset\` state the current window. After a 429, wait for the seconds in \`Retry-After\`: earlier requests are
refused too. A request body has at most 64 KiB, and an endpoint receives no more attempts per second than its setting
\`rateLimitPerSecond\`.

## Versioning

The base paths end in \`/v1\`. Within \`v1\`, operations, optional parameters, fields, error codes and event types can be
added. Ignore unknown fields, and handle unknown error codes by their status. An operation is retired only after at
least twelve months with the headers \`Deprecation\` and \`Sunset\`.

${readErrors()}`;
}

/** Section with all error codes. `npm run docs` writes its tables. */
function readErrors(): string {
  const text = readFileSync(path.join(import.meta.dirname, "assets", "partner-errors.md"), "utf8");
  return text.replaceAll(/^#/gm, "##").trim();
}

const signatureExamples: readonly [language: string, codeName: string, file: string][] = [
  ["JavaScript (Node)", "js", "verify.js"],
  ["Python", "python", "verify.py"],
  ["Go", "go", "verify.go"],
  ["Java", "java", "WebhookSignature.java"],
  ["C#", "csharp", "verify.cs"],
];

/** Formats the function that verifies a signature as one collapsed block of code for each language. */
function readSignatureExamples(): string {
  const blocks = signatureExamples.map(([language, codeName, file]) => {
    const code = readFileSync(path.join(import.meta.dirname, "assets", "signatures", file), "utf8");
    return `<details><summary>${language}</summary>\n\n\`\`\`${codeName}\n${code}\`\`\`\n\n</details>`;
  });
  return blocks.join("\n\n");
}
