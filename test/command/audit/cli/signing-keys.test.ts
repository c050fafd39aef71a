import { expect } from "chai";
import { runAuditCommand } from "../cli-terminal.ts";
import { createSigningKeys } from "../world.ts";

describe("the keys that sign audit exports", () => {
  it("the command `keys` prints the keys in AUDIT_SIGNING_KEYS, and prints one line if the setting is missing", async () => {
    const { code, output: out } = await runAuditCommand(["keys"], {
      env: { AUDIT_SIGNING_KEYS: await createSigningKeys("own") },
    });
    expect(code).to.equal(0);
    expect(JSON.parse(out).keys.map(({ kid }: { kid: string }) => kid)).to.deep.equal(["own"]);
    const resultWithoutKeys = await runAuditCommand(["keys"], { env: {} });
    expect([resultWithoutKeys.code, resultWithoutKeys.errorLines.length, resultWithoutKeys.output]).to.deep.equal([
      2,
      1,
      "",
    ]);
    expect(resultWithoutKeys.errorLines[0]).to.match(/^audit: settings: AUDIT_SIGNING_KEYS is missing [^\n]*$/);
  });
});
