import { readFile } from "node:fs/promises";
import path from "node:path";
import { z } from "zod";
import { staffCommands } from "../../command/operations/commands.ts";
import { PROJECT_FOLDER } from "../../deploy/local/setup/project.ts";
import { isSecret, type Settings, settings } from "../../shared/runtime/config.ts";
import { checkGeneratedFile } from "./generated-file.ts";

const toRow = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;

/** Checks the document's table with the given header. In `npm run docs`, writes the table instead. */
async function checkTable(file: string, header: readonly string[], rows: readonly string[][]): Promise<void> {
  const text = await readFile(path.join(PROJECT_FOLDER, file), "utf8");
  const headerLines = `${toRow(header)}\n|${"---|".repeat(header.length)}\n`;
  const [start, part] = text.split(headerLines);
  if (part === undefined) throw new Error(`${file} has no table with the columns ${header.join(", ")}`);
  const end = part.indexOf("\n\n");
  const rest = end < 0 ? "\n" : part.slice(end);
  await checkGeneratedFile(file, start + headerLines + rows.map(toRow).join("\n") + rest);
}

describe("the tables of the documents", () => {
  it("CONFIGURATION.md has the table of the settings", () => {
    const names = Object.keys(settings) as (keyof Settings)[];
    const rows = names.map((name) => {
      const schema = z.toJSONSchema(settings[name], { io: "input", unrepresentable: "any" });
      const nameCell = isSecret(name) ? `\`${name}\`, secret` : `\`${name}\``;
      return [nameCell, schema.default === undefined ? "" : `\`${schema.default}\``, schema.description ?? ""];
    });
    return checkTable("CONFIGURATION.md", ["variable", "default", "meaning"], rows);
  });

  it("docs/commands.md has the table of the commands", () => {
    const permissions = [...new Set(staffCommands.map(({ permission }) => permission))];
    const rows = permissions.map((permission) => {
      const commands = staffCommands.filter((command) => command.permission === permission);
      const names = commands.map(({ name }) => name).sort();
      const label = permission === "operator" ? "operators only" : permission ? `\`${permission}\`` : "none";
      return [label, names.map((name) => `\`${name}\``).join(", ")];
    });
    return checkTable("docs/commands.md", ["permission", "commands"], rows);
  });
});
