import { expect } from "chai";
import { createRetry, StuckOperationError } from "../../../command/cli/retry.ts";
import { LogUnavailableError } from "../../../shared/eventstore/log.ts";

describe("the retries of one operation of an event log", () => {
  const failure = new LogUnavailableError("no answer");

  /** Retries an operation that always fails. Returns its error and the elapsed time. */
  async function runFailingOperation(waitSeconds: number, isLogAvailable: () => Promise<boolean>) {
    const retry = createRetry({ waitSeconds, writeNote: () => undefined, isLogAvailable });
    const startedAt = performance.now();
    const error = await retry(() => Promise.reject(failure)).catch((thrown: unknown) => thrown);
    return { error, durationMs: performance.now() - startedAt };
  }

  it("an operation ends with its own error if the log answers for other streams", async () => {
    const { error, durationMs } = await runFailingOperation(1, async () => true);
    expect(error).to.be.instanceOf(StuckOperationError);
    expect(durationMs).to.be.at.least(1_000);
  });

  it("an operation is retried until the time limit if the log does not answer", async () => {
    const { error, durationMs } = await runFailingOperation(1, async () => false);
    expect(error).to.equal(failure);
    expect(durationMs).to.be.at.least(1_000);
  });
});
