import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { type CheckedResponse, challenges } from "../../support/openapi.ts";
import { partnerResponseChecker } from "../../support/partner-document.ts";
import { createPortalChecker } from "../../support/portal-document.ts";

describe("the response checker", () => {
  const operation = partnerResponseChecker.findOperation("POST", "/webhook-endpoints/any/deliveries/any/replay");
  if (!operation) throw new Error("The document does not contain the operation.");

  const headers = {
    "Content-Type": "application/json",
    "Cache-Control": "no-store",
    "X-Correlation-ID": randomUUID(),
    "RateLimit-Limit": "120",
    "RateLimit-Remaining": "7",
    "RateLimit-Reset": "2026-05-04T08:00:00.000Z",
    "RateLimit-Policy": '"installation";q=120;w=60',
    RateLimit: '"installation";r=119;t=60',
  };
  const body = { ok: true, delivery: { id: randomUUID(), status: "pending" } };

  function checkResponse(
    changedFields: Partial<CheckedResponse> = {},
    moreHeaders: Record<string, string | null> = {},
  ): string {
    const entries = Object.entries({ ...headers, ...moreHeaders }).filter((entry) => entry[1] !== null);
    const response = { status: 202, body, headers: new Headers(entries as [string, string][]), ...changedFields };
    try {
      partnerResponseChecker.checkResponse(operation as NonNullable<typeof operation>, response);
      return "";
    } catch (error) {
      return (error as Error).message;
    }
  }

  const error = { ok: false, error: "not_replayable", correlationId: randomUUID(), docUrl: "/docs" };
  const findings: [
    finding: RegExp,
    changedFields: Partial<CheckedResponse>,
    moreHeaders?: Record<string, string | null>,
  ][] = [
    [/^$/, {}],
    [/^$/, {}, { "X-SERVICE-Log-Position": "12" }],
    [/response 200 of .* is not in the document/, { status: 200 }],
    [/must NOT have additional properties/, { body: { ...body, extra: 1 } }],
    [/format "uuid"/, { body: { ...body, delivery: { id: "x", status: "pending" } } }],
    [/must be equal to one of the allowed values/, { status: 409, body: error }],
    [/lacks the header RateLimit-Reset/, {}, { "RateLimit-Reset": null }],
    [/has the undocumented header x-powered-by/, {}, { "X-Powered-By": "x" }],
    [/RateLimit-Remaining: many/, {}, { "RateLimit-Remaining": "many" }],
    [/lacks Cache-Control: no-store/, {}, { "Cache-Control": "public" }],
  ];
  it("the response checker reports each difference from the document", () => {
    for (const [finding, changedFields, moreHeaders] of findings)
      expect(checkResponse(changedFields, moreHeaders)).to.match(finding);
  });

  it("the response checker knows the challenge of each documented error code with status 401 or 403", () => {
    const operations = [...partnerResponseChecker.operations, ...createPortalChecker().operations];
    const responses = operations.flatMap((documented) => [401, 403].map((it) => documented.operation.responses[it]));
    const codes = JSON.stringify(responses).matchAll(/"enum":\[([^\]]*)\]/g);
    const documentedCodes = new Set([...codes].flatMap(([, list = ""]) => JSON.parse(`[${list}]`) as string[]));
    expect(Object.keys(challenges)).to.have.members([...documentedCodes]);
    const body = { ok: false, error: "insufficient_scope", correlationId: randomUUID(), docUrl: "/docs" };
    const checkChallenge = (challenge: string | null) =>
      checkResponse({ status: 403, body }, { "WWW-Authenticate": challenge });
    expect(checkChallenge('Bearer error="insufficient_scope", scope="webhooks:write"')).to.equal("");
    for (const challenge of [null, "Bearer", 'Bearer error="insufficient_scope", scope="webhooks:read"'])
      expect(checkChallenge(challenge)).to.match(/ has the challenge /);
  });
});
