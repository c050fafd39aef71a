import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { createLineIdGenerator, parseLine } from "../../../../command/cli/import/import-line.ts";
import { createDependencies } from "../../../../command/cli/staff-command.ts";
import { staffCommands } from "../../../../command/operations/commands.ts";
import type { EventLog } from "../../../../shared/eventstore/log.ts";
import { connectToLog } from "../../../support/connections.ts";
import { createTestOperatorContext } from "../../../support/partner.ts";
import { createPlainLog } from "../../../support/plain-log.ts";
import { getTestServers } from "../../../support/stack.ts";
import {
  createLine,
  createOtherObjects,
  createTestLinkCode,
  FIRST_COMMANDS,
  type Ids,
  type Line,
  OTHER_COMMANDS,
} from "../../command-sequence.ts";
import { runClinic as run } from "../terminal.ts";

const importableCommands = staffCommands.filter((command) => command.isImportable);

describe("a second import of a complete file", () => {
  let env: NodeJS.ProcessEnv;
  let log: EventLog;
  before(async () => {
    env = { EVENTSTORE_URL: (await getTestServers()).eventstoreUrl };
    log = createPlainLog(connectToLog(env.EVENTSTORE_URL ?? ""));
  });
  const importLines = async (lines: Line[]) => {
    const stdin = lines.map((line) => JSON.stringify(line)).join("\n");
    const { code, outputLines: out, errorLines: err } = await run(["import", "-", "--json"], { env, stdin });
    const totals = JSON.parse(out.at(-1) ?? "");
    return { code, failures: out.slice(0, -1), totals, err };
  };

  /** Returns import lines that use every importable command. Already imports the first lines. */
  async function prepareLines(): Promise<{ clinicId: string; lines: Line[] }> {
    const ids: Ids = {};
    const firstLines = FIRST_COMMANDS.map((name) => createLine(name, ids));
    expect((await importLines(firstLines)).code).to.equal(0);
    await createOtherObjects(log, ids);
    const importableNames = new Set(importableCommands.map(({ name }) => name));
    const otherLines: Line[] = [];
    for (const name of OTHER_COMMANDS) {
      if (name === "animal link withdraw") await createTestLinkCode(log, ids);
      if (importableNames.has(name) && name !== "clinic close") otherLines.push(createLine(name, ids));
    }
    const repeatedLines = otherLines.filter(({ command }) =>
      /^(customer change|clinic (subscribe|entitle))$/.test(command),
    );
    return { clinicId: ids.clinicId as string, lines: [...firstLines, ...otherLines, ...repeatedLines] };
  }

  const expectAllApplied = (lines: Line[], importResult: Awaited<ReturnType<typeof importLines>>) => {
    expect(importResult.failures).to.deep.equal([]);
    expect(importResult.totals).to.include({ alreadyApplied: lines.length, applied: 0, failed: 0 });
    expect(importResult.code).to.equal(0);
  };

  it("after the clinic was closed, a second import reports all lines as already applied, and refuses only new lines", async () => {
    const { clinicId, lines } = await prepareLines();
    const usedCommands = new Set(lines.map(({ command }) => command));
    const unusedCommands = importableCommands.map(({ name }) => name).filter((name) => !usedCommands.has(name));
    expect(unusedCommands).to.deep.equal(["clinic close"]);
    const firstImport = await importLines(lines);
    expect(firstImport.failures).to.deep.equal([]);
    expect(firstImport.code).to.equal(0);
    expectAllApplied(lines, await importLines(lines));
    const closeResult = await run(["clinic", "close", "--clinic", clinicId, "--reason", "Given up"], { env });
    expect(closeResult.code).to.equal(0);
    const newLine = { command: "customer register", customerId: randomUUID(), clinicId, fullName: "Late" };
    const { code, totals, failures } = await importLines([...lines, newLine]);
    expect(code).to.equal(3);
    expect(totals).to.include({ alreadyApplied: lines.length, applied: 0, refused: 1, failed: 1 });
    const problems = [{ field: "$.clinicId", reason: "the clinic is closed" }];
    expect(failures.map((line) => JSON.parse(line))).to.deep.equal([
      { line: lines.length + 1, code: "clinic_closed", problems },
    ]);
  });

  it("if the file itself closes the clinic, a second import reports all lines as already applied", async () => {
    const { clinicId, lines } = await prepareLines();
    const closingLines = [...lines, { command: "clinic close", clinicId, reason: "Given up" }];
    expect((await importLines(closingLines)).failures).to.deep.equal([]);
    expectAllApplied(closingLines, await importLines(closingLines));
  });

  it("an import finishes the interrupted registration of a sandbox application", async () => {
    const application = { applicationId: randomUUID(), name: "Half", environment: "sandbox", scopes: ["clinic:read"] };
    const lines: Line[] = [{ command: "partner register", ...application }];
    const text = JSON.stringify(lines[0]);
    const parsedLine = parseLine(text);
    if (!("values" in parsedLine)) throw new Error("the line is invalid");
    const failingLog: EventLog = {
      ...log,
      append: (stream, ...restArgs) =>
        stream === parsedLine.stream ? Promise.reject(new Error("killed")) : log.append(stream, ...restArgs),
    };
    const context = { ...createTestOperatorContext(), causationId: createLineIdGenerator()(text) };
    const failureMessage = await parsedLine.command
      .run(createDependencies(failingLog, {}), parsedLine.values, context)
      .catch((error: Error) => error.message);
    expect(failureMessage).to.equal("killed");
    const secondImport = await importLines(lines);
    expect(secondImport.totals, secondImport.failures.join()).to.include({ applied: 1 });
    expect(await log.read(parsedLine.stream)).to.have.length(1);
  });
});
