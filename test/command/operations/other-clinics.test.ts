import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import { clinicCommands, staffCommands } from "../../../command/operations/commands.ts";
import type { CommandDependencies } from "../../../command/operations/define-command.ts";
import { createLinkCodes } from "../../../command/operations/link-codes.ts";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import { DomainError } from "../../../shared/domain/domain-error.ts";
import { connectToLog } from "../../support/connections.ts";
import { PERSONAL_DATA_KEYS } from "../../support/data-keys.ts";
import { createTestOperatorContext } from "../../support/partner.ts";
import { createPlainLog } from "../../support/plain-log.ts";
import { getTestServers } from "../../support/stack.ts";
import { createLine, type Ids, type Line } from "../command-sequence.ts";

/** Commands that create one object of each type to which other commands refer. */
const CREATIONS = [
  ...["clinic register", "branch open", "membership grant", "staff hire", "customer register", "animal register"],
  ...["service offer", "resource add", "appointment request", "hold place", "ticket issue"],
];

describe("references of commands", () => {
  let client: EventStoreDBClient;
  let dependencies: CommandDependencies;
  let own: Ids;
  let foreign: Ids;

  before(async () => {
    client = connectToLog((await getTestServers()).eventstoreUrl);
    const secretBox = createSecretBox({ current: "k", keys: { k: Buffer.alloc(32).toString("base64") } });
    dependencies = {
      log: createPlainLog(client),
      secretBox,
      linkCodes: createLinkCodes(JSON.parse(PERSONAL_DATA_KEYS)),
    };
    [own, foreign] = [await createObjects(), await createObjects()];
  });

  async function createObjects(): Promise<Ids> {
    const ids: Ids = {};
    for (const name of CREATIONS) await run(createLine(name, ids));
    return ids;
  }

  function run({ command: name, ...input }: Line) {
    const command = staffCommands.find((staffCommand) => staffCommand.name === name)!;
    return command.run(dependencies, command.input.parse(input), createTestOperatorContext());
  }

  const findRefusal = (line: Line) =>
    run(line).then(
      () => undefined,
      (error: unknown) => (error instanceof DomainError ? error.code : Promise.reject(error)),
    );

  for (const command of clinicCommands)
    it(`\`${command.name}\` refuses every object of another clinic`, async () => {
      const { clinicId: _, userId: __, ...foreignIds } = foreign;
      const fields = Object.keys(command.input.shape).filter(
        (field) => field in foreignIds && field !== command.creates,
      );
      for (const field of fields) {
        const ids = { ...own, applicationId: randomUUID(), assignmentId: randomUUID(), ruleId: randomUUID() };
        const line = { ...createLine(command.name, ids), [field]: foreignIds[field] };
        expect(await findRefusal(line), field).to.match(/_not_found$|^validation_failed$|^not_an_administrator$/);
      }
    });

  it("a hold is refused for a resource of another branch, and for a retired resource", async () => {
    const { resourceId } = own;
    const ids = { ...own };
    await run(createLine("branch open", ids));
    expect(await findRefusal({ ...createLine("hold place", ids), resourceId })).to.equal("resource_not_found");
    await run(createLine("resource retire", own));
    expect(await findRefusal({ ...createLine("hold place", own), resourceId })).to.equal("resource_retired");
  });
});
