import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { staffCommands } from "../../../command/operations/commands.ts";
import { toOptionKey } from "../../../shared/command-line/field-option.ts";
import { toOptionName } from "../../../shared/command-line/option.ts";
import { connectToLog } from "../../support/connections.ts";
import { PERSONAL_DATA_KEYS } from "../../support/data-keys.ts";
import { createPlainLog } from "../../support/plain-log.ts";
import { getTestServers } from "../../support/stack.ts";
import {
  createLine,
  createOtherObjects,
  FIRST_COMMANDS,
  type Ids,
  type Line,
  OTHER_COMMANDS,
} from "../command-sequence.ts";
import { runClinic } from "./terminal.ts";

const SECRET_KEYS = JSON.stringify({ current: "k", keys: { k: Buffer.alloc(32).toString("base64") } });

/** Converts a line of an import to words of the command line. */
function toWords({ command, ...values }: Line): string[] {
  const options = Object.entries(values).map(([field, value]) => {
    const words = value === true ? [] : [value === null ? "" : String(value)];
    return [toOptionName(toOptionKey(field)), ...words];
  });
  return [...command.split(" "), ...options.flat()];
}

describe("the examples of the operator's command line", () => {
  let env: NodeJS.ProcessEnv;
  before(async () => {
    const { eventstoreUrl } = await getTestServers();
    env = { EVENTSTORE_URL: eventstoreUrl, WEBHOOK_SECRET_KEYS: SECRET_KEYS, PERSONAL_DATA_KEYS };
  });

  it("the examples of all commands change something one after the other, and print the ids of what they create", async () => {
    const ids: Ids = {};
    const run = async (name: string) => {
      const line = createLine(name, ids);
      const { code, outputLines, errorLines } = await runClinic([...toWords(line), "--json"], { env });
      expect([name, code, errorLines]).to.deep.equal([name, 0, []]);
      const { changed, position, ...output } = JSON.parse(outputLines.join("\n"));
      expect([name, changed, output.command]).to.deep.equal([name, true, name]);
      expect(position, name).to.match(/^\d+$/);
      const { creates } = staffCommands.find((command) => command.name === name)!;
      if (creates !== undefined) expect(output[creates], name).to.equal(line[creates]);
    };
    for (const name of FIRST_COMMANDS) await run(name);
    const client = connectToLog(env.EVENTSTORE_URL ?? "");
    await createOtherObjects(createPlainLog(client), ids);
    for (const name of OTHER_COMMANDS) await run(name);
  });

  it("the sequence of examples contains every command", () => {
    const names = new Set([...FIRST_COMMANDS, ...OTHER_COMMANDS]);
    expect(staffCommands.map(({ name }) => name).filter((name) => !names.has(name))).to.eql([]);
  });

  it("`branch open` prints the id of the branch, not the id of the clinic", async () => {
    const ids: Ids = {};
    await runClinic(toWords(createLine("clinic register", ids)), { env });
    const branchId = randomUUID();
    const openArgs = ["branch", "open", "--clinic", ids.clinicId!, "--name", "Old Town", "--branch", branchId];
    expect((await runClinic(openArgs, { env })).outputLines).to.eql([`branch open: done, branch ${branchId}`]);
  });
});
