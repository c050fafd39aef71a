import { execFileSync } from "node:child_process";
import { expect } from "chai";
import { auditCommandLine } from "../../../command/audit/cli/command-line.ts";
import { clinicCommandLine } from "../../../command/cli/command-line.ts";
import { describeCommandLine } from "../../../shared/command-line/command-line.ts";
import { completeWords, formatCompletionScript } from "../../../shared/command-line/completion.ts";

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

  it("bash completes with the script", () => {
    const script = `clinic() { printf 'reschedule\\tMoves\\nrequest\\tRequests\\nconfirm\\tConfirms\\n'; }
      ${formatCompletionScript("bash")}
      COMP_WORDS=(clinic appointment re); COMP_CWORD=2; _clinic; echo "\${COMPREPLY[@]}"`;
    expect(execFileSync("bash", ["-c", script], { encoding: "utf8" })).to.equal("reschedule request\n");
    expect(formatCompletionScript("csh")).to.equal(undefined);
  });
});
