import { expect } from "chai";
import { Circuit } from "../../../shared/runtime/circuit.ts";

describe("circuit", () => {
  let now = 0;
  let reportedErrors: unknown[] = [];
  let callCount = 0;
  const createTestCircuit = (callTimeoutMs = 1_000) => {
    [now, reportedErrors, callCount] = [0, [], 0];
    const onFailure = (error: unknown) => reportedErrors.push(error);
    return new Circuit({ callTimeoutMs, onFailure, clock: () => now });
  };
  const succeed = async () => {
    callCount += 1;
    return "fine";
  };
  const fail = async () => {
    callCount += 1;
    throw new Error("dead");
  };
  const getOutcome = (callPromise: Promise<string>) => callPromise.catch((error: Error) => error.message);

  it("after a failure, the circuit permits only periodic test calls", async () => {
    const circuit = createTestCircuit();
    expect(await getOutcome(circuit.call(fail))).to.equal("dead");
    for (let i = 0; i < 10; i += 1)
      expect(await getOutcome(circuit.call(succeed))).to.match(/the previous call failed/);
    expect(callCount).to.equal(1);
    now = 2_000;
    const outcomePromises = [circuit.call(fail), circuit.call(fail), circuit.call(fail)].map(getOutcome);
    expect((await Promise.all(outcomePromises)).filter((message) => message === "dead")).to.have.length(1);
    expect(callCount).to.equal(2);
  });

  it("after a successful test call, the circuit permits all calls", async () => {
    const circuit = createTestCircuit();
    await getOutcome(circuit.call(fail));
    now = 2_000;
    expect(await circuit.call(succeed)).to.equal("fine");
    expect(await circuit.call(succeed)).to.equal("fine");
  });

  it("the circuit treats a timeout as a failure", async () => {
    const circuit = createTestCircuit(10);
    expect(await getOutcome(circuit.call(() => new Promise(() => undefined)))).to.match(/no response within/);
    expect(await getOutcome(circuit.call(succeed))).to.match(/the previous call failed/);
  });

  it("the circuit reports failures at most once every 30 s", async () => {
    const circuit = createTestCircuit();
    for (now = 0; now <= 60_000; now += 3_000) await getOutcome(circuit.call(fail));
    expect(reportedErrors).to.have.length(3);
  });
});
