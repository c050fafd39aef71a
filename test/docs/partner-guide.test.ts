import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { PROJECT_FOLDER } from "../../deploy/local/setup/project.ts";

const guideText = readFileSync(path.join(PROJECT_FOLDER, "docs/partner-guide.md"), "utf8");

describe("the partner guide", () => {
  it("the partner guide links every example program", () => {
    const files = readdirSync(path.join(PROJECT_FOLDER, "docs", "examples"), { recursive: true, encoding: "utf8" })
      .filter((name) => path.extname(name) !== "")
      .map((name) => `examples/${name}`);
    const linkedFiles = [...guideText.matchAll(/\]\((examples\/[^)]+)\)/g)].map(([, file]) => file);
    expect(linkedFiles).to.have.members(files);
  });
});
