/** An audit service, and files with tree heads and proofs. */
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { makeTestRoot } from "../../../support/stack.ts";
import { type CommandResult, runAuditCommand } from "../cli-terminal.ts";
import { type AuditWorld, startAuditWorld } from "../world.ts";

export interface TreeWorld extends AuditWorld {
  /** File with the public keys. */
  keyFile: string;
  /** Returns the name of a new file. */
  nameFile(): string;
  /** Writes a file and returns its name. */
  writeFile(content: string): string;
  /** Runs the auditors' command line with the settings of the audit service. */
  run(args: string[], env?: NodeJS.ProcessEnv): Promise<CommandResult>;
  /** Publishes a tree head if there are new events. Returns the file with the last tree head. */
  publishHead(args?: string[]): Promise<string>;
}

export async function startTreeWorld(settings: Record<string, string> = {}): Promise<TreeWorld> {
  const world = await startAuditWorld(settings);
  const folder = makeTestRoot();
  const nameFile = () => path.join(folder, `${randomUUID()}.json`);
  const writeFile = (content: string) => {
    const file = nameFile();
    fs.writeFileSync(file, content);
    return file;
  };
  const run: TreeWorld["run"] = (args, env = world.env) => runAuditCommand(args, { env });
  return {
    ...world,
    nameFile,
    writeFile,
    run,
    keyFile: writeFile((await run(["keys"])).output),
    async publishHead(args = []) {
      const { code, output, errorLines } = await run(["tree-head", "--actor", "ada", ...args]);
      if (code !== 0) throw new Error(errorLines.join("\n"));
      return writeFile(output);
    },
  };
}

// biome-ignore lint/suspicious/noExplicitAny: each test knows which fields it expects
export const readJson = (file: string): any => JSON.parse(fs.readFileSync(file, "utf8"));
