import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { auditCommandLine } from "../../../command/audit/cli/command-line.ts";
import { clinicCommandLine } from "../../../command/cli/command-line.ts";
import { describeCommandLine, runCommandLine } from "../../../shared/command-line/command-line.ts";
import { completeWords } from "../../../shared/command-line/completion.ts";
import { makeTestRoot } from "../../support/stack.ts";
import { createTestTerminal } from "../../support/terminal.ts";

/** zsh program that sources the script `$1` in an interactive shell, completes two words, and prints the line. */
const ZSH_PROGRAM = `zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1=; source $1; show() print -r \\"=\\$BUFFER=\\"; zle -N show; bindkey '^X' show; print REA''DY"
zpty -r shell output '*READY*'
zpty -w -n shell $'clinic animal link-c\\t\\t\\x18'
zpty -r shell output '*=clinic *=*'
print -r -- $output`;

/** Programs that source the script `$1`, and print the candidates after `clinic animal link-code`. */
const PROGRAMS: Record<string, string[]> = {
  bash: [
    "-c",
    'source "$1"; COMP_WORDS=(clinic animal link-code ""); COMP_CWORD=3; _clinic; echo "$COMPREPLY"',
    "bash",
  ],
  fish: ["-c", 'source $argv[1]; complete -C "clinic animal link-code "'],
  zsh: ["-f", "-c", ZSH_PROGRAM, "zsh"],
};

const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

describe("the completion of the command line", () => {
  const texts = [clinicCommandLine, auditCommandLine].map(describeCommandLine);
  const complete = (...words: string[]) => completeWords(texts, words).map((line) => line.split("\t")[0]);

  it("the completion lists nouns, verbs, options and the values of options", () => {
    expect(complete("")).to.include.members(["appointment", "import", "audit"]);
    expect(complete("appointment", "")).to.include.members(["request", "reschedule"]).and.not.include("audit");
    expect(complete("animal", "link-code", "")).to.deep.equal(["create"]);
    expect(complete("appointment", "confirm", "--clinic", "x", ""))
      .to.include("--appointment")
      .and.not.include("--clinic");
    expect(complete("partner", "register", "--environment", "")).to.deep.equal(["sandbox", "production"]);
    expect(complete("audit", "")).to.include.members(["events", "export"]);
    expect(complete("nothing", "")).to.deep.equal([]);
  });

  const run = async (...words: string[]) => {
    const { terminal, outputLines, errorLines } = createTestTerminal();
    const code = await runCommandLine(clinicCommandLine, words, terminal);
    return { code, output: outputLines.join("\n"), errorLines };
  };

  it("the help of the completion says how to install it, and an unknown shell is refused", async () => {
    const { code, output } = await run("completion", "--help");
    expect([code, output]).to.deep.equal([0, (await run("help", "completion")).output]);
    expect(output).to.contain("source <(clinic completion bash)").and.contain("In a checkout");
    expect(await run("completion", "csh")).to.deep.include({ code: 2, output: "" });
    expect((await run("help", "appointment", "reschedule")).output).to.contain("--scheduled-at");
  });

  for (const [shell, args] of Object.entries(PROGRAMS))
    it(`${shell} completes words with its script`, async function () {
      const folder = makeTestRoot();
      const scriptFile = path.join(folder, "script");
      fs.writeFileSync(scriptFile, `${(await run("completion", shell)).output}\n`);
      // Starting the real executable for each word would take most of the time of this test.
      const cases = [["link-c"], ["link-code", ""]].map((words) => {
        const lines = completeWords(texts, ["animal", ...words]);
        return `"complete animal ${words.join(" ")}") printf '%s\\n' ${lines.map(quote).join(" ")};;`;
      });
      const executable = `#!/bin/sh\ncase "$*" in\n${cases.join("\n")}\nesac\n`;
      fs.writeFileSync(path.join(folder, "clinic"), executable, { mode: 0o755 });
      const env = { ...process.env, PATH: `${folder}:${process.env.PATH}`, HOME: folder };
      const { error, stdout, stderr } = spawnSync(shell, [...args, scriptFile], {
        env,
        encoding: "utf8",
        timeout: 100_000,
      });
      if ((error as NodeJS.ErrnoException | undefined)?.code === "ENOENT") this.skip(); // The shell is not installed.
      expect(stdout, stderr).to.match(/\bcreate\b/);
      expect(stdout).not.to.contain("withdraw");
    });
});
