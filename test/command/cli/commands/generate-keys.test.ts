import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { keySettings } from "../../../../command/cli/commands/key-commands.ts";
import { generateKeys } from "../../../../shared/auth/generate-keys.ts";
import { importSigningKeys } from "../../../../shared/auth/signing-keys.ts";
import { readConfig } from "../../../../shared/runtime/config.ts";
import { makeTestRoot } from "../../../support/stack.ts";
import { runClinic } from "../terminal.ts";

const FOLDERS = ["bin", "command", "deploy", "docs", "projection", "query-api", "shared", "test"];

describe("the command `keys generate`", () => {
  const env = { DATABASE_URL: "" };

  for (const setting of keySettings) {
    const generate = async (...args: string[]) => {
      const result = await runClinic(["keys", "generate", "--for", setting, ...args], { env });
      expect(result).to.include({ code: 0 });
      return result.outputLines.join("\n");
    };
    const read = (value: string) => readConfig([setting], { [setting]: value })[setting]!;

    it(`it prints a valid value of ${setting}, and adds a key to a value without using it`, async () => {
      const value = await generate();
      const file = join(makeTestRoot(), "keys");
      writeFileSync(file, `${value}\n`);
      const extendedValue = await generate("--add-to", file);
      const [keys, extendedKeys] = [read(value), read(extendedValue)];
      expect(Object.keys(keys.keys)).to.have.length(1);
      expect(Object.entries(extendedKeys.keys)).to.have.length(2);
      expect(Object.entries(extendedKeys.keys)[0]).to.deep.equal(Object.entries(keys.keys)[0]);
      if ("current" in keys) expect(extendedKeys).to.include({ current: keys.current });
      else await importSigningKeys("TOKEN_SIGNING_KEYS", Object.values(extendedKeys.keys));
    });
  }

  it("a file that does not exist, and one with the keys of another kind, are refused", async () => {
    const add = (setting: string, file: string) =>
      runClinic(["keys", "generate", "--for", setting, "--add-to", file], { env });
    const { code, errorLines } = await add("PERSONAL_DATA_KEYS", "none");
    expect(code).to.equal(2);
    expect(errorLines.join()).to.contain("cannot be read (ENOENT)");
    const file = join(makeTestRoot(), "keys");
    writeFileSync(file, await generateKeys("WEBHOOK_SECRET_KEYS"));
    expect(await add("TOKEN_SIGNING_KEYS", file)).to.include({ code: 2 });
  });

  it("no file generates keys with node:crypto, whose export as a JWK can hang forever", () => {
    const files = FOLDERS.flatMap((folder) =>
      readdirSync(folder, { recursive: true, encoding: "utf8" }).map((name) => join(folder, name)),
    );
    const codeFiles = files.filter((file) => /\.(?:ts|m?js)$/.test(file) && !file.includes("node_modules"));
    expect(codeFiles.length).to.be.greaterThan(900);
    const generators = codeFiles.filter((file) => readFileSync(file, "utf8").includes(`generateKeyPair${"Sync"}`));
    expect(generators).to.deep.equal(["shared/auth/generate-keys.ts"]); // in a comment
  });
});
