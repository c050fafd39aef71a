import { expect } from "chai";
import fc from "fast-check";
import { v5 as uuidv5 } from "uuid";
import { createLineIdGenerator, deriveImportId } from "../../../../command/cli/import/import-line.ts";
import { createLineQueue } from "../../../../command/cli/import/import-run.ts";

describe("the lines of an import in progress", () => {
  /** Runs commands with the given delays. @returns the logical times at which each command began and ended */
  async function runCommands(commands: { changedId: string; otherIds: string[] }[], delays: number[]) {
    const queue = createLineQueue();
    const history: { beganAt: number; endedAt: number }[] = [];
    let clock = 0;
    for (const [index, { changedId, otherIds }] of commands.entries())
      await queue.start({ changedId, ids: new Set([changedId, ...otherIds]), length: 1 }, async () => {
        clock += 1;
        const beganAt = clock;
        for (let tick = 0; tick < (delays[index] ?? 0); tick += 1) await Promise.resolve();
        clock += 1;
        history[index] = { beganAt, endedAt: clock };
      });
    await queue.waitForEnd();
    return history;
  }

  it("import commands that depend on each other run in sequence", async () => {
    const idArbitrary = fc.constantFrom("a", "b", "c", "d");
    const commandArbitrary = fc.record({ changedId: idArbitrary, otherIds: fc.array(idArbitrary, { maxLength: 2 }) });
    await fc.assert(
      fc.asyncProperty(
        fc.array(commandArbitrary, { maxLength: 30 }),
        fc.array(fc.nat(9), { minLength: 30, maxLength: 30 }),
        async (commands, delays) => {
          const history = await runCommands(commands, delays);
          expect(history).to.have.length(commands.length);
          commands.forEach((laterCommand, j) => {
            commands.slice(0, j).forEach((earlierCommand, i) => {
              const isDependent =
                laterCommand.changedId === earlierCommand.changedId ||
                laterCommand.otherIds.includes(earlierCommand.changedId) ||
                earlierCommand.otherIds.includes(laterCommand.changedId);
              if (isDependent) expect(history[i]!.endedAt).to.be.lessThan(history[j]!.beganAt);
            });
          });
        },
      ),
    );
  });

  it("import commands that refer to the same object without changing the object run concurrently", async () => {
    const commands = ["x", "y", "z"].map((changedId) => ({ changedId, otherIds: ["clinic"] }));
    const history = await runCommands(commands, [5, 5, 5]);
    const lastBeganAt = Math.max(...history.map(({ beganAt }) => beganAt));
    expect(lastBeganAt).to.be.lessThan(Math.min(...history.map(({ endedAt }) => endedAt)));
  });
});

const NAMESPACE = "d8a1f6f2-5b0d-4b6e-9c3a-2f7e1c9b4a60";

describe("the ids of an import", () => {
  const lineText = '{"fullName": "Zoë 🐾", "command": "customer register", "city": null}';

  it("the ids of lines and imports are UUIDs of version 5, so that earlier imports are recognised", () => {
    expect(createLineIdGenerator()(lineText)).to.equal(uuidv5(lineText, NAMESPACE));
    for (const text of ["", "a", lineText, "x".repeat(5_000)])
      expect(deriveImportId(text)).to.equal(uuidv5(text, NAMESPACE));
  });

  it("the second line with the same text has a different id", () => {
    const createId = createLineIdGenerator();
    createId(lineText);
    expect(createId(lineText)).to.equal(uuidv5(`${lineText}\n1`, NAMESPACE));
  });
});
