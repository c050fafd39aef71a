import { expect } from "chai";
import { runSteps, type Step } from "../../../../deploy/local/demo-data/steps.ts";
import type { EventLog } from "../../../../shared/eventstore/log.ts";

describe("steps of the demo data", () => {
  it("if the signal is aborted, runSteps stops after the current step and fails with the signal's reason", async () => {
    const controller = new AbortController();
    const runNames: string[] = [];
    const step = (name: string, run: () => void = () => undefined): Step => ({
      name,
      time: 0,
      run: async () => {
        runNames.push(name);
        run();
      },
    });
    const stop = new Error("stopped");
    const sequence = [step("first"), step("second", () => controller.abort(stop)), step("third")];
    const run = runSteps({} as EventLog, [[sequence]], () => undefined, controller.signal);
    expect(await run.catch((error: Error) => error)).to.equal(stop);
    expect(runNames).to.deep.equal(["first", "second"]);
  });
});
