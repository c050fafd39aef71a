import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { auditCommandLine } from "../../../command/audit/cli/command-line.ts";
import { clinicCommandLine } from "../../../command/cli/command-line.ts";
import { findTimeZone } from "../../../command/cli/find-time-zone.ts";
import { projectionCommandLine } from "../../../projection/cli/command-line.ts";
import { defineCommand, runCommandLine } from "../../../shared/command-line/command-line.ts";
import { withLocalTimes } from "../../../shared/command-line/local-times.ts";
import { option } from "../../../shared/command-line/option.ts";
import { instant } from "../../../shared/domain/events/fields.ts";
import { connectToLog } from "../../support/connections.ts";
import { createClinic } from "../../support/partner.ts";
import { createPlainLog } from "../../support/plain-log.ts";
import { getTestServers } from "../../support/stack.ts";
import { createTestTerminal } from "../../support/terminal.ts";

const LOCAL_TIME = "2026-11-28 10:00";

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
        const given = values.map(([key]) => [key, key === "clinic" ? clinicId : LOCAL_TIME]);
        const { terminal } = createTestTerminal({ env });
        const problem = await command.run(Object.fromEntries(given), terminal).then(
          () => "",
          (error: Error) => error.message,
        );
        expect(problem, command.name).not.to.match(/RFC 3339|offset|must be a time/);
        timeCount += values.filter(([, { placeholder }]) => ["date-time", "time"].includes(placeholder ?? "")).length;
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
        options: { since: option.text(instant, "", "date-time") },
        run: async ({ since }) => {
          received = since;
        },
      });
      const line = { program: "x", description: "", commands: [withLocalTimes(command, async () => zone)] };
      expect(await runCommandLine(line, ["try", "--since", LOCAL_TIME], createTestTerminal().terminal)).to.equal(0);
      const expected = offset === undefined ? new Date(`${LOCAL_TIME}:00`) : new Date(`2026-11-28T10:00:00${offset}`);
      expect(received).to.equal(expected.toISOString());
    }
  });
});
