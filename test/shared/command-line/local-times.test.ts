import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { auditCommandLine } from "../../../command/audit/cli/command-line.ts";
import { clinicCommandLine } from "../../../command/cli/command-line.ts";
import { findTimeZone } from "../../../command/cli/find-time-zone.ts";
import { projectionCommandLine } from "../../../projection/cli/command-line.ts";
import { type Command, defineCommand, runCommandLine } from "../../../shared/command-line/command-line.ts";
import { describeFailure } from "../../../shared/command-line/describe-failure.ts";
import { withLocalTimes } from "../../../shared/command-line/local-times.ts";
import { option } from "../../../shared/command-line/option.ts";
import { instant } from "../../../shared/domain/events/fields.ts";
import { connectToLog } from "../../support/connections.ts";
import { createClinic } from "../../support/partner.ts";
import { createPlainLog } from "../../support/plain-log.ts";
import { getTestServers } from "../../support/stack.ts";
import { createTestTerminal } from "../../support/terminal.ts";

/** Options that accept a name. They get valid values, because a wrong name would hide errors of other options. */
const NAMED = ["clinic", "clinics", "branch", "branches", "application", "endpoint", "resource", "service"];
const LOCAL_TIME = "2026-11-28 10:00";

const createLine = (command: Command) => ({ program: "x", description: "", describeFailure, commands: [command] });

describe("times without an offset", () => {
  let env: NodeJS.ProcessEnv;
  let clinicId: string;
  let customerId: string;

  before(async () => {
    env = { EVENTSTORE_URL: (await getTestServers()).eventstoreUrl };
    const log = createPlainLog(connectToLog(env.EVENTSTORE_URL ?? ""));
    ({ clinicId, customerId } = await createClinic(log));
  });

  for (const { program, commands } of [clinicCommandLine, auditCommandLine, projectionCommandLine])
    it(`no command of \`${program}\` asks for an offset of a time`, async () => {
      let timeCount = 0;
      for (const command of commands) {
        const values = Object.entries(command.options).filter(([, { placeholder }]) => placeholder !== undefined);
        if (values.length === 0) continue;
        // Other options have a wrong value, too, so that no command is executed.
        const given = values.map(([key]) => [key, NAMED.includes(key) ? clinicId : LOCAL_TIME]);
        const { terminal } = createTestTerminal({ env });
        const problem = await command.run(Object.fromEntries(given), terminal).then(
          () => "",
          (error: Error) => error.message,
        );
        expect(problem, command.name).not.to.match(/RFC 3339|offset|must be a time such/);
        timeCount += values.filter(([, { placeholder }]) => /\btime\b|^point$/.test(placeholder ?? "")).length;
      }
      expect(timeCount).to.be.greaterThan(0);
    });

  it("a time is in the time zone of the clinic whose object or stream the options name", async () => {
    for (const given of [{ clinic: clinicId }, { customer: customerId }, { stream: `customer-${customerId}` }])
      expect(await findTimeZone(given, env)).to.equal("Europe/Istanbul");
    for (const given of [{ customer: randomUUID() }, { stream: "nothing" }, { actor: "ada" }, { clinic: "Name" }])
      expect(await findTimeZone(given, env)).to.equal(undefined);
    expect(await findTimeZone({ timezone: "Europe/Oslo" }, env)).to.equal("Europe/Oslo");
  });

  it("the start or end of a range can be a date, and other times cannot", async () => {
    let received: unknown;
    const command = defineCommand({
      ...{ name: "try", summary: "Tries.", example: "" },
      options: {
        from: option.text(instant.optional(), "", "date or time"),
        startsAt: option.text(instant.optional(), "", "time"),
      },
      run: async (values) => {
        received = values;
      },
    });
    // In Beirut, the clocks skip the first hour of this day.
    const line = createLine(withLocalTimes(command, async () => "Asia/Beirut"));
    const run = async (...args: string[]) => {
      const { terminal, errorLines } = createTestTerminal();
      await runCommandLine(line, ["try", ...args], terminal);
      return errorLines.join();
    };
    expect(await run("--from", "2026-03-29", "--starts-at", "2026-03-28 10:00:30")).to.equal("");
    expect(received).to.deep.equal({ from: "2026-03-28T22:00:00.000Z", startsAt: "2026-03-28T08:00:30.000Z" });
    const rule = "a time such as 2026-11-28 10:00, or an RFC 3339 date-time with an offset";
    expect(await run("--starts-at", "2026-03-29")).to.equal(`x: --starts-at must be ${rule}`);
    expect(await run("--from", "29.3.2026")).to.equal(`x: --from must be a date, ${rule}`);
  });

  it("a command gets the time with its offset, in the time zone of this computer if there is no clinic", async () => {
    const { timeZone } = new Intl.DateTimeFormat().resolvedOptions();
    for (const [zone, offset] of [
      ["Asia/Tokyo", "+09:00"],
      [timeZone, undefined],
      [undefined, undefined],
    ] as const) {
      let received = "";
      const command = defineCommand({
        ...{ name: "try", summary: "Tries.", example: "" },
        options: { since: option.text(instant, "", "time") },
        run: async ({ since }) => {
          received = since;
        },
      });
      const line = createLine(withLocalTimes(command, async () => zone));
      expect(await runCommandLine(line, ["try", "--since", LOCAL_TIME], createTestTerminal().terminal)).to.equal(0);
      const expected = offset === undefined ? new Date(`${LOCAL_TIME}:00`) : new Date(`2026-11-28T10:00:00${offset}`);
      expect(received).to.equal(expected.toISOString());
    }
  });
});
