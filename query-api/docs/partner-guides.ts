import { readFileSync } from "node:fs";
import path from "node:path";
import { errorGroups, generalErrors } from "../../shared/partner-api/error-codes.ts";
import type { Operation } from "./openapi.ts";

/**
 * Builds the general sections of the partner document's introduction. Renderers show them above the operations.
 *
 * @param brand brand in header names, as in `X-<brand>-Signature`
 * @param baseUrl base URL of the sandbox
 * @param operations operations of the document, which list their error codes
 */
export function buildPartnerGuides(brand: string, baseUrl: string, operations: readonly Operation[]): string {
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

${describeErrorCodes(operations)}`;
}

const errorSections: Readonly<Record<keyof typeof errorGroups, string>> = {
  retry: `### Wait and try again

Wait for \`Retry-After\`, or increase the wait from one second up to a minute. Give up after a limit that suits your
program. For a new appointment, use the same idempotency key.`,
  token: "### Get a new token",
  access: `### Check credentials and permissions

A retry does not help. Stop, and inform the person who is responsible.`,
  request: `### Correct the request

These errors are mistakes in the program or in its input. A retry of the same request fails again.`,
};

/** Builds the section about errors, with all error codes and the HTTP statuses that the operations list for them. */
function describeErrorCodes(operations: readonly Operation[]): string {
  const responses = operations.flatMap((operation) => Object.entries(operation.responses));
  const describeRow = ([code, meaning]: [string, string]) => {
    const listing = responses.filter(([, { description }]) => description.includes(`- \`${code}\`:`));
    const statuses = new Set(listing.map(([status]) => Number(status)));
    if (code in generalErrors) statuses.add(generalErrors[code as keyof typeof generalErrors]);
    return `| ${[...statuses].sort((a, b) => a - b).join(", ")} | \`${code}\` | ${meaning} |`;
  };
  const sections = Object.entries(errorGroups).map(([group, errors]) => {
    const rows = Object.entries(errors).map(describeRow).join("\n");
    return `${errorSections[group as keyof typeof errorGroups]}\n\n| status | code | meaning and what to do |\n|---|---|---|\n${rows}`;
  });
  return `## Errors

Every response with status 400 or above has the body \`{ok: false, error, correlationId, docUrl}\`. \`error\` is a stable
code, and each operation lists its codes. \`docUrl\` is the path of the row in these tables. Handle errors by code, and
unknown codes by status. Log the correlation id, and include it when you contact the operator. Never log tokens, secrets
or bodies.

${sections.join("\n\n")}`;
}

const signatureExamples: readonly [language: string, codeName: string, file: string][] = [
  ["JavaScript (Node)", "js", "verify.js"],
  ["Python", "python", "verify.py"],
  ["Go", "go", "verify.go"],
  ["Java", "java", "WebhookSignature.java"],
  ["C#", "csharp", "verify.cs"],
];

/** Formats the code examples that verify a signature, one collapsed block for each language. */
function readSignatureExamples(): string {
  const blocks = signatureExamples.map(([language, codeName, file]) => {
    const code = readFileSync(path.join(import.meta.dirname, "assets", "signatures", file), "utf8");
    return `<details><summary>${language}</summary>\n\n\`\`\`${codeName}\n${code}\`\`\`\n\n</details>`;
  });
  return blocks.join("\n\n");
}
