import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { PROJECT_FOLDER } from "../../deploy/local/setup/project.ts";
import { partnerResponseChecker } from "../support/partner-document.ts";

const guideText = readFileSync(path.join(PROJECT_FOLDER, "docs/partner-guide.md"), "utf8");

const errorsText = readFileSync(path.join(PROJECT_FOLDER, "query-api/docs/assets/partner-errors.md"), "utf8");

/** Errors that every operation can return. Operations do not list them. */
const GENERAL_ERRORS = [
  ...["400 malformed_request", "404 not_found", "405 method_not_allowed", "408 request_timeout"],
  ...["410 operation_retired", "431 headers_too_large"],
];

describe("the partner guide", () => {
  it("the partner guide links every example program", () => {
    const files = readdirSync(path.join(PROJECT_FOLDER, "docs", "examples"), { recursive: true, encoding: "utf8" })
      .filter((name) => path.extname(name) !== "")
      .map((name) => `examples/${name}`);
    const linkedFiles = [...guideText.matchAll(/\]\((examples\/[^)]+)\)/g)].map(([, file]) => file);
    expect(linkedFiles).to.have.members(files);
  });

  it("the document of errors says what to do for each error code and status of the partner API", () => {
    const rows = [...errorsText.matchAll(/^\| (\d{3}(?:, \d{3})*) \| `(\w+)` \|/gm)];
    const explainedErrors = rows.flatMap(([, statuses = "", code]) =>
      statuses.split(", ").map((status) => `${status} ${code}`),
    );
    const documentedErrors = new Set(GENERAL_ERRORS);
    for (const { operation } of partnerResponseChecker.operations) {
      for (const [status, { content }] of Object.entries(operation.responses)) {
        const { allOf = [] } = (content?.["application/json"]?.schema ?? {}) as { allOf?: ErrorSchema[] };
        const codes = allOf.flatMap(({ properties }) => properties?.error.enum ?? []);
        for (const code of codes) documentedErrors.add(`${status} ${code}`);
      }
    }
    expect(explainedErrors).to.have.members([...documentedErrors]);
  });
});

interface ErrorSchema {
  properties?: { error: { enum: string[] } };
}
