import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { auditCommandLine } from "../../../command/audit/cli/command-line.ts";
import { clinicCommandLine } from "../../../command/cli/command-line.ts";
import { registerClinic } from "../../../command/operations/clinic-operations.ts";
import { registerEndpoint } from "../../../command/operations/webhook-endpoint-operations.ts";
import { projectionCommandLine } from "../../../projection/cli/command-line.ts";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import { type Command, type CommandLine, runCommandLine } from "../../../shared/command-line/command-line.ts";
import type { Terminal } from "../../../shared/command-line/terminal.ts";
import type { AppointmentEvent } from "../../../shared/domain/events/appointment.ts";
import {
  type AuditWorld,
  type ClinicHistory,
  createClinicWithHistory,
  startAuditWorld,
} from "../../command/audit/world.ts";
import { eventually } from "../../support/eventually.ts";
import { createDatabaseWithReadModels } from "../../support/migrated-database.ts";
import { createApplication, createTestOperatorContext, installApplication } from "../../support/partner.ts";
import { useResource } from "../../support/resources.ts";
import { createTestTerminal } from "../../support/terminal.ts";

const commandLines: readonly CommandLine[] = [clinicCommandLine, auditCommandLine, projectionCommandLine];

/** All commands that list or show something. */
const listings = commandLines.flatMap((commandLine) =>
  commandLine.commands
    .filter(({ summary }) => /\b(lists|shows)\b/i.test(summary))
    .map((command) => ({ commandLine, command, name: toFullName(commandLine, command) })),
);

/** Returns the name that follows `clinic`, such as `audit events`. */
function toFullName({ program }: CommandLine, { name }: Pick<Command, "name">): string {
  return [...program.split(" ").slice(1), name].join(" ");
}

const ESCAPE = "\x1b";

describe("the listings of all command lines", function () {
  this.timeout(300_000);
  let world: AuditWorld;
  const database = useResource(createDatabaseWithReadModels);
  let history: ClinicHistory;
  let listingArguments: Record<string, string[]>;

  before(async () => {
    world = await startAuditWorld({}, undefined, database);
    history = await createClinicWithHistory(world.log);
    const application = await createApplication(world.log);
    await installApplication(world.log, application, history);
    const key = Buffer.alloc(32).toString("base64");
    const owner = { ...application, clinicId: history.clinicId, environment: "production" as const };
    await registerEndpoint(
      { log: world.log, secretBox: createSecretBox({ current: "k", keys: { k: key } }) },
      { owner, url: "https://hooks.example.com/clinic", events: ["appointment.created"] },
      createTestOperatorContext(),
    );
    const auditor = await world.registerAuditor([history.clinicId]);
    await auditor.request(`/audit/v1/state?stream=${history.stream}`);
    const rebuildResult = await run(projectionCommandLine, ["rebuild"]);
    expect(rebuildResult.code, rebuildResult.errorLines.join("\n")).to.equal(0);
    const { clinicId, appointmentId, stream } = history;
    await eventually("the auditor in the audit index", async () => {
      const { outputLines } = await run(clinicCommandLine, ["auditor", "list"]);
      return outputLines.length > 1;
    });
    listingArguments = {
      "clinic list": [],
      "branch list": ["--clinic", `clinic-${clinicId}`],
      "partner list": [],
      "installation list": ["--clinic", "Happy Paws", "--application", "Calendar"],
      "endpoint list": ["--application", "Calendar"],
      "auditor list": [],
      "retention list": ["--clinic", clinicId],
      "audit events": ["--appointment", appointmentId],
      "audit accesses": ["--clinic", `clinic-${clinicId}`, "--limit", "1"],
      "audit readers": ["--clinic", "Happy Paws"],
      "audit clinic-state": ["--clinic", clinicId],
      "audit as-of": [stream],
      "audit diff": [stream],
      "audit replay": [stream],
      "projection status": [],
      "projection verify": [],
    };
  });

  after(async () => {
    await world?.stop();
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

  it("a list names the objects next to their ids, as a table in a pipe and as records on a narrow terminal", async () => {
    const { applicationId } = JSON.parse((await run(clinicCommandLine, ["partner", "list", "--json"])).outputLines[0]!);
    const { outputLines: table } = await run(clinicCommandLine, ["installation", "list"]);
    expect(table[0]).to.match(/^APPLICATION +CLINIC +STATUS +SCOPES +APPLICATION ID +CLINIC ID$/);
    expect(table[1]).to.match(new RegExp(`^Calendar +Happy Paws +approved .* ${applicationId} +${history.clinicId}$`));
    const { outputLines: records } = await run(clinicCommandLine, ["installation", "list"], {
      columns: 60,
      env: { NO_COLOR: "1" },
    });
    expect(records.join("\n"))
      .to.contain(`application     Calendar\n`)
      .and.contain(`clinic id       ${history.clinicId}\n`);
  });

  it("options accept a name or a slug, and times of the clinic, and a terminal shows the name of the object", async () => {
    const { clinicId, branchId, animalId } = history;
    const request = ["appointment", "request", "--clinic", `clinic-${clinicId}`, "--branch", "Center"];
    const args = [...request, "--animal", animalId, "--scheduled-at", "2099-11-28 10:00", "--json"];
    const { code, outputLines, errorLines } = await run(clinicCommandLine, args);
    expect([code, errorLines]).to.deep.equal([0, []]);
    const { appointmentId } = JSON.parse(outputLines.join());
    const [requested] = await world.log.read<AppointmentEvent>(`appointment-${appointmentId}`);
    expect(requested?.data).to.include({ clinicId, branchId, scheduledAt: "2099-11-28T07:00:00.000Z" });
    const text = await run(clinicCommandLine, args.slice(0, -1));
    expect(text.outputLines.join()).to.contain("\nscheduled at: 2099-11-28T10:00:00+03:00 (Europe/Istanbul)");
    const { outputLines: help } = await run(auditCommandLine, ["export", "--help"]);
    expect(help.join("\n")).to.contain("--clinic <id or name>").and.contain("--from <date or time>");
    const suspended = await run(clinicCommandLine, ["clinic", "reinstate", "--clinic", "Happy Paws"], { columns: 80 });
    expect(suspended.outputLines.join()).to.contain(`clinic ${clinicId} (Happy Paws)`);
  });

  it("a name of no object or of several objects is refused with exit code 2, and so is a time that clocks skip", async () => {
    const { clinicId, branchId, animalId } = history;
    const unknown = await run(clinicCommandLine, ["clinic", "reinstate", "--clinic", "Nowhere"]);
    expect([unknown.code, unknown.errorLines]).to.deep.equal([
      2,
      ['clinic: --clinic: no clinic has the name or id "Nowhere"; `clinic clinic list` shows the names'],
    ]);
    const ids = ["--clinic", clinicId, "--branch", branchId, "--animal", animalId];
    const clinic = { slug: `zurich-${clinicId}`, name: "Happy Paws 2", timezone: "Europe/Zurich" };
    const zurichId = randomUUID();
    const location = { currency: "CHF", locale: "de-CH", city: null, environment: "production" as const };
    await registerClinic(
      world.log,
      { clinicId: zurichId, ...clinic, ...location, isDemo: false, demoExpiresAt: null },
      createTestOperatorContext(),
    );
    for (const [time, problem] of [
      ["2099-03-29 02:30", "skip this time"],
      ["2099-10-25 02:30", "show this time twice: 2099-10-25T02:30:00+02:00, 2099-10-25T02:30:00+01:00"],
    ]) {
      const args = ["appointment", "request", ...ids, "--clinic", zurichId, "--scheduled-at", time!];
      const { code, errorLines } = await run(clinicCommandLine, args);
      expect([code, errorLines]).to.deep.equal([
        2,
        [`clinic: --scheduled-at ${time}: the clocks in Europe/Zurich ${problem}`],
      ]);
    }
  });

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
