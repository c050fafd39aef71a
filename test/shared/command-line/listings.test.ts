import { expect } from "chai";
import { auditCommandLine } from "../../../command/audit/cli/command-line.ts";
import { clinicCommandLine } from "../../../command/cli/command-line.ts";
import { projectionCommandLine } from "../../../projection/cli/command-line.ts";
import { type Command, type CommandLine, runCommandLine } from "../../../shared/command-line/command-line.ts";
import type { Terminal } from "../../../shared/command-line/terminal.ts";
import {
  type AuditWorld,
  type ClinicHistory,
  createClinicWithHistory,
  startAuditWorld,
} from "../../command/audit/world.ts";
import { createDatabaseWithReadModels } from "../../support/migrated-database.ts";
import type { TestDatabase } from "../../support/stack.ts";
import { createTestTerminal } from "../../support/terminal.ts";

const commandLines: readonly CommandLine[] = [clinicCommandLine, auditCommandLine, projectionCommandLine];

/** All commands that list or show something, with their command line. */
const listings = commandLines.flatMap((commandLine) =>
  commandLine.commands
    .filter(({ summary }) => /\b(lists|shows)\b/i.test(summary))
    .map((command) => ({ commandLine, command, name: toFullName(commandLine, command) })),
);

/** Words after the program's name, such as `audit events`. */
function toFullName({ program }: CommandLine, { name }: Pick<Command, "name">): string {
  return [...program.split(" ").slice(1), name].join(" ");
}

const ESCAPE = "\x1b";

describe("the listings of all command lines", function () {
  this.timeout(300_000);
  let world: AuditWorld;
  let database: TestDatabase;
  let history: ClinicHistory;
  let listingArguments: Record<string, string[]>;

  before(async () => {
    database = await createDatabaseWithReadModels();
    world = await startAuditWorld({}, undefined, database);
    history = await createClinicWithHistory(world.log);
    const auditor = await world.registerAuditor([history.clinicId]);
    await auditor.request(`/audit/v1/state?stream=${history.stream}`);
    const rebuildResult = await run(projectionCommandLine, ["rebuild"]);
    expect(rebuildResult.code, rebuildResult.errorLines.join("\n")).to.equal(0);
    const { clinicId, appointmentId, stream } = history;
    listingArguments = {
      "retention list": ["--clinic", clinicId],
      "audit events": ["--appointment", appointmentId],
      "audit latest": ["--clinic", clinicId],
      "audit accesses": ["--clinic", clinicId],
      "audit as-of": [stream],
      "audit diff": [stream],
      "audit replay": [stream],
      "projection status": [],
      "projection verify": [],
    };
  });

  after(async () => {
    await world?.stop();
    await database?.drop();
  });

  async function run(commandLine: CommandLine, args: string[], overrides: Partial<Terminal> = {}) {
    const url = commandLine === auditCommandLine ? database.urls.audit : database.urls.projection;
    const { terminal, ...lines } = createTestTerminal({
      ...overrides,
      env: { ...world.env, DATABASE_URL: url, ...overrides.env },
    });
    return { code: await runCommandLine(commandLine, args, terminal), ...lines };
  }

  it("the test knows arguments for every listing", () => {
    expect(listings.map(({ name }) => name)).to.have.members(Object.keys(listingArguments));
  });

  for (const { commandLine, command, name } of listings) {
    const runListing = async (moreArgs: string[], overrides: Partial<Terminal> = {}) => {
      const args = [...command.name.split(" "), ...(listingArguments[name] ?? []), ...moreArgs];
      const result = await run(commandLine, args, overrides);
      expect(result.code, result.errorLines.join("\n")).to.equal(0);
      expect(result.outputLines).to.not.deep.equal([]);
      return { output: result.outputLines.join("\n"), errorText: result.errorLines.join("\n"), ...result };
    };

    it(`\`clinic ${name}\` prints complete ids, neither colors nor a suggestion, in a pipe`, async () => {
      const { output, errorText } = await runListing([]);
      expect(output + errorText).to.not.match(/Next: |…/);
      expect(output + errorText).to.not.contain(ESCAPE);
      // A cut UUID would have fewer characters than its first two groups announce.
      for (const [id] of output.matchAll(/\b[0-9a-f]{8}-[0-9a-f]{4}[0-9a-f-]*/g)) expect(id).to.have.length(36);
    });

    it(`\`clinic ${name} --json\` prints JSON, without a suggestion`, async () => {
      const { outputLines, errorText } = await runListing(["--json"], { columns: 80 });
      for (const line of outputLines) expect(JSON.parse(line)).to.be.an("object");
      expect(errorText).to.not.contain("Next: ");
    });

    it(`\`clinic ${name}\` suggests a valid next command on a terminal, and obeys NO_COLOR`, async () => {
      const { output, errorText } = await runListing([], { columns: 80, env: { NO_COLOR: "1" } });
      expect(output + errorText).to.not.contain(ESCAPE);
      const nextWords = /^Next: clinic (.*)$/m.exec(errorText)?.[1]?.split(" ") ?? [];
      const nextLine = commandLines.find(({ program }) => program === `clinic ${nextWords[0]}`) ?? clinicCommandLine;
      const nextArgs = nextLine === clinicCommandLine ? nextWords : nextWords.slice(1);
      const nextResult = await run(nextLine, nextArgs);
      expect(nextResult.code, `${nextWords.join(" ")}: ${nextResult.errorLines}`).to.equal(0);
    });
  }

  it("the help of every command fits the width of the terminal, and 80 columns in a pipe", async () => {
    for (const columns of [80, 120, undefined])
      for (const commandLine of commandLines)
        for (const words of [[], ...commandLine.commands.map(({ name }) => name.split(" "))]) {
          const { outputLines } = await run(commandLine, [...words, "--help"], { columns });
          const wideLines = outputLines
            .join("\n")
            .split("\n")
            // A line of a file and a path stay on one line.
            .filter((line) => line.length > (columns ?? 80) && !/^ {2}[{/]/.test(line));
          expect(wideLines, `${commandLine.program} ${words.join(" ")}`).to.deep.equal([]);
        }
  });
});
