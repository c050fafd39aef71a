import { readFile } from "node:fs/promises";
import path from "node:path";
import { z } from "zod";
import { PROJECT_FOLDER } from "../../deploy/local/setup/project.ts";
import { isSecret, type Settings, settings } from "../../shared/runtime/config.ts";
import { checkGeneratedFile } from "./generated-file.ts";

const HEADER = "| variable | default | meaning |\n|---|---|---|\n";

it("CONFIGURATION.md has the table of the settings, which `npm run docs` writes", async () => {
  const text = await readFile(path.join(PROJECT_FOLDER, "CONFIGURATION.md"), "utf8");
  const [start, part] = text.split(HEADER);
  if (part === undefined) throw new Error("CONFIGURATION.md has no table of the settings");
  const rows = (Object.keys(settings) as (keyof Settings)[]).map((name) => {
    const { default: value, description } = z.toJSONSchema(settings[name], { io: "input", unrepresentable: "any" });
    const nameCell = isSecret(name) ? `\`${name}\` or \`${name}_FILE\`` : `\`${name}\``;
    return `| ${nameCell} | ${value === undefined ? "" : `\`${value}\``} | ${description ?? ""} |`;
  });
  await checkGeneratedFile("CONFIGURATION.md", start + HEADER + rows.join("\n") + part.slice(part.indexOf("\n\n")));
});
