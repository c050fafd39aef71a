import { expect } from "chai";
import { runSteps, type Step } from "../../../../deploy/local/demo-data/steps.ts";
import type { EventLog } from "../../../../shared/eventstore/log.ts";

describe("steps of the demo data", () => {
  it("if the signal is aborted, runSteps stops after the current step and fails with the signal's reason", async () => {
    const controller = new AbortController();
    const startedStepNames: string[] = [];
    const createStep = (name: string, run: () => void = () => undefined): Step => ({
      name,
      timeMs: 0,
      run: async () => {
        startedStepNames.push(name);
        run();
      },
    });
    const stopError = new Error("stopped");
    const sequence = [
      createStep("first"),
      createStep("second", () => controller.abort(stopError)),
      createStep("third"),
    ];
    const runPromise = runSteps({} as EventLog, [[sequence]], () => undefined, controller.signal);
    expect(await runPromise.catch((error: Error) => error)).to.equal(stopError);
    expect(startedStepNames).to.deep.equal(["first", "second"]);
  });
});
