/** An audit service, a clinic with a history, and an export of the clinic in a file. */
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import type { Verdict } from "../../../../command/audit/export/verify-export.ts";
import { makeTestRoot } from "../../../support/stack.ts";
import { type CommandResult, runAuditCommand } from "../cli-terminal.ts";
import { type AuditWorld, type ClinicHistory, createClinicWithHistory, startAuditWorld } from "../world.ts";

export interface ExportWorld extends AuditWorld {
  history: ClinicHistory;
  /** Folder for files of the test. It contains `keyFile` and `file`. */
  folder: string;
  /** File with the public keys that the command line prints. */
  keyFile: string;
  /** File with the export of the clinic. */
  file: string;
  /** Lines of the export, with line endings. */
  lines: string[];
  /** Runs the auditors' command line, by default with the settings of the audit service. */
  run(args: string[], env?: NodeJS.ProcessEnv): Promise<CommandResult>;
  /** Writes a file with the given content and verifies the file, without any setting. */
  verify(content: string, key?: string): Promise<Partial<Verdict> & { code: number } & VerdictFields>;
}

// biome-ignore lint/suspicious/noExplicitAny: each test knows which fields the verdict has
type VerdictFields = { line?: number; problem?: string; manifest?: any };

export async function startExportWorld(): Promise<ExportWorld> {
  const world = await startAuditWorld();
  const history = await createClinicWithHistory(world.log, "notes with \u2028 and ünïcode 🐾");
  const folder = makeTestRoot();
  const [keyFile, file] = [path.join(folder, "keys.json"), path.join(folder, "export.ndjson")];
  const run: ExportWorld["run"] = (args, env = world.env) => runAuditCommand(args, { env });
  fs.writeFileSync(keyFile, (await run(["keys"])).output);
  const { code } = await run(["export", "--clinic", history.clinicId, "--out", file, "--actor", "ada"]);
  expect(code).to.equal(0);
  return {
    ...world,
    history,
    folder,
    keyFile,
    file,
    run,
    lines: fs.readFileSync(file, "utf8").split(/(?<=\n)/),
    async verify(content, key = keyFile) {
      const name = path.join(folder, `${randomUUID()}.ndjson`);
      fs.writeFileSync(name, content);
      const { code, output: out } = await run(["verify", name, "--key", key, "--json"], {});
      return { code, ...JSON.parse(out) };
    },
  };
}
