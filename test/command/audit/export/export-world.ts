import fs from "node:fs";
import { expect } from "chai";
import type { Verdict } from "../../../../command/audit/export/verify-export.ts";
import { useAuditWorld } from "../world.ts";

// biome-ignore lint/suspicious/noExplicitAny: each test knows which fields the verdict has
type VerdictFields = { line?: number; problem?: string; manifest?: any };

/** Starts an audit service for a test suite, and exports the history of its clinic to a file. */
export function useExport() {
  const suite = useAuditWorld({}, "notes with \u2028 and ünïcode 🐾");
  const { world, history } = suite;
  /** Path of the export, and its lines with line endings. */
  const exported = {} as { file: string; lines: string[] };
  before(async () => {
    const file = world.nameFile();
    const { code } = await world.run(["export", "--clinic", history.clinicId, "--out", file, "--actor", "ada"]);
    expect(code).to.equal(0);
    Object.assign(exported, { file, lines: fs.readFileSync(file, "utf8").split(/(?<=\n)/) });
  });
  /** Writes the content to a file and verifies it. The command runs without environment variables. */
  const verify = async (
    content: string,
    key = world.keyFile,
  ): Promise<Partial<Verdict> & { code: number } & VerdictFields> => {
    const { code, output } = await world.run(["verify", world.writeFile(content), "--key", key, "--json"], {});
    return { code, ...JSON.parse(output) };
  };
  return { ...suite, exported, verify };
}
