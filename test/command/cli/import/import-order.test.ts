import { expect } from "chai";
import fc from "fast-check";
import { createImportOrder } from "../../../../command/cli/import/import-order.ts";

describe("the order of an import", () => {
  /** Enters the commands in turn and ends each at a moment of its own; tells when each began and ended. */
  async function run(commands: { changes: string; names: string[] }[], delays: number[]) {
    const takeTurn = createImportOrder();
    const history: { begins: number; ends: number }[] = [];
    let clock = 0;
    await Promise.all(
      commands.map(async ({ changes, names }, index) => {
        const turn = takeTurn({ changedId: changes, ids: [...new Set([changes, ...names])] });
        await turn.ready;
        clock += 1;
        const begins = clock;
        for (let tick = 0; tick < (delays[index] ?? 0); tick += 1) await Promise.resolve();
        clock += 1;
        history[index] = { begins, ends: clock };
        turn.end();
      }),
    );
    return history;
  }

  it("keeps dependent commands in sequence", async () => {
    const id = fc.constantFrom("a", "b", "c", "d");
    const command = fc.record({ changes: id, names: fc.array(id, { maxLength: 2 }) });
    await fc.assert(
      fc.asyncProperty(
        fc.array(command, { maxLength: 30 }),
        fc.array(fc.nat(9), { minLength: 30, maxLength: 30 }),
        async (commands, delays) => {
          const history = await run(commands, delays);
          expect(history).to.have.length(commands.length);
          commands.forEach((later, j) => {
            commands.slice(0, j).forEach((earlier, i) => {
              const depends =
                later.changes === earlier.changes ||
                later.names.includes(earlier.changes) ||
                earlier.names.includes(later.changes);
              if (depends) expect(history[i]!.ends).to.be.lessThan(history[j]!.begins);
            });
          });
        },
      ),
    );
  });

  it("runs commands that only name the same id concurrently", async () => {
    const commands = ["x", "y", "z"].map((changes) => ({ changes, names: ["clinic"] }));
    const history = await run(commands, [5, 5, 5]);
    const lastBegin = Math.max(...history.map(({ begins }) => begins));
    expect(lastBegin).to.be.lessThan(Math.min(...history.map(({ ends }) => ends)));
  });
});
