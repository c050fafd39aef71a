import { readFile } from "node:fs/promises";
import path from "node:path";
import { expect } from "chai";
import { z } from "zod";
import { staffCommands } from "../../command/operations/commands.ts";
import { PROJECT_FOLDER } from "../../deploy/local/setup/project.ts";
import {
  errorGroups,
  generalErrors,
  type PartnerErrorCode,
  partnerErrors,
} from "../../shared/partner-api/error-codes.ts";
import { isSecret, type Settings, settings } from "../../shared/runtime/config.ts";
import { partnerResponseChecker } from "../support/partner-document.ts";
import { checkGeneratedFile } from "./generated-file.ts";

const toRow = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;

/** Checks the tables after a header row of a document, or writes them if `npm run docs` runs. */
async function checkTables(file: string, header: readonly string[], ...tables: (readonly string[][])[]): Promise<void> {
  const text = await readFile(path.join(PROJECT_FOLDER, file), "utf8");
  const headerLines = `${toRow(header)}\n|${"---|".repeat(header.length)}\n`;
  const [start, ...parts] = text.split(headerLines);
  expect(parts, `tables ${header.join(", ")} in ${file}`).to.have.length(tables.length);
  const newParts = parts.map((part, index) => {
    const end = part.indexOf("\n\n");
    return (tables[index] ?? []).map(toRow).join("\n") + (end < 0 ? "\n" : part.slice(end));
  });
  await checkGeneratedFile(file, [start, ...newParts].join(headerLines));
}

interface ErrorSchema {
  allOf?: { properties?: { error: { enum: string[] } } }[];
}

/** Lists the statuses of each error code of the partner API. */
function listStatuses(): Map<string, Set<number>> {
  const statuses = new Map(Object.entries(generalErrors).map(([code, status]) => [code, new Set<number>([status])]));
  for (const { operation } of partnerResponseChecker.operations) {
    for (const [status, { content }] of Object.entries(operation.responses)) {
      const { allOf = [] } = (content?.["application/json"]?.schema ?? {}) as ErrorSchema;
      for (const code of allOf.flatMap(({ properties }) => properties?.error.enum ?? []))
        statuses.set(code, (statuses.get(code) ?? new Set()).add(Number(status)));
    }
  }
  return statuses;
}

describe("the tables of the documents", () => {
  it("CONFIGURATION.md has the table of the settings", () => {
    const names = Object.keys(settings) as (keyof Settings)[];
    const rows = names.map((name) => {
      const schema = z.toJSONSchema(settings[name], { io: "input", unrepresentable: "any" });
      const nameCell = isSecret(name) ? `\`${name}\` or \`${name}_FILE\`` : `\`${name}\``;
      return [nameCell, schema.default === undefined ? "" : `\`${schema.default}\``, schema.description ?? ""];
    });
    return checkTables("CONFIGURATION.md", ["variable", "default", "meaning"], rows);
  });

  it("docs/commands.md has the table of the commands", () => {
    const permissions = [...new Set(staffCommands.map(({ permission }) => permission))];
    const rows = permissions.map((permission) => {
      const commands = staffCommands.filter((command) => command.permission === permission);
      const names = commands.map(({ name }) => name).sort();
      const label = permission === "operator" ? "operators only" : permission ? `\`${permission}\`` : "none";
      return [label, names.map((name) => `\`${name}\``).join(", ")];
    });
    return checkTables("docs/commands.md", ["permission", "commands"], rows);
  });

  it("the document of errors has the meaning, the statuses and what to do for each error code of the partner API", () => {
    const statuses = listStatuses();
    expect(Object.keys(partnerErrors)).to.have.members([...statuses.keys()]);
    const tables = Object.values(errorGroups).map((group) =>
      (Object.keys(group) as PartnerErrorCode[]).map((code) => [
        [...(statuses.get(code) ?? [])].sort((a, b) => a - b).join(", "),
        `\`${code}\``,
        partnerErrors[code],
      ]),
    );
    return checkTables(
      "query-api/docs/assets/partner-errors.md",
      ["status", "code", "meaning and what to do"],
      ...tables,
    );
  });
});
