import { expect } from "chai";
import fc from "fast-check";
import pg from "pg";
import { ItemError, StopError } from "../../../shared/runtime/failures.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { forEachConcurrently, repeat, runWork } from "../../../shared/runtime/work.ts";

class ServerError extends Error {}

const createDatabaseError = (code: string) => Object.assign(new pg.DatabaseError("refused", 7, "error"), { code });
const createLoop = (signal: AbortSignal) => ({
  name: "test",
  logger: createLogger("test", "silent"),
  signal,
  report: () => undefined,
});
const refusals = [() => new ItemError("refused"), () => createDatabaseError("22001")];

type Fate = "good" | "bad" | "slow" | "fatal";

/** Numbers of the server calls that fail, counted from 1. "refused" has no effect; "response lost" has its effect. */
type Outages = ReadonlyMap<number, "refused" | "response lost">;

interface Scenario {
  /** Outcome of each item, by batch. */
  batches: readonly (readonly Fate[])[];
  outages: Outages;
}

/** Runs the work of a scenario with a simulated server. Items are numbered from 0. */
async function run({ batches, outages }: Scenario) {
  const fates = batches.flat();
  const [handled, aside, reports]: [number[], Set<number>, unknown[]] = [[], new Set(), []];
  let callCount = 0;
  // Several timeouts of one item in `handle` would count against the item.
  const call = async (effect: () => void, createError: () => Error = () => createDatabaseError("57014")) => {
    callCount += 1;
    if (outages.get(callCount) === "refused") throw createError();
    effect();
    if (outages.get(callCount) === "response lost") throw createError();
  };
  let takenCount = 0;
  let nextItem = 0;
  const work = {
    async take() {
      let batch: readonly Fate[] | undefined;
      await call(() => {
        batch = batches[takenCount];
      });
      takenCount += 1;
      return batch?.map(() => nextItem++);
    },
    handle: (items: readonly number[]) =>
      call(
        () => {
          const index = items.findIndex((item) => fates[item] !== "good");
          const fate = fates[items[index] ?? -1];
          if (fate === "slow") throw createDatabaseError("57014");
          if (fate !== undefined) throw refusals[index % 2]?.();
          // A repeated transaction changes nothing.
          handled.push(...items.filter((item) => !handled.includes(item)));
        },
        () => new ServerError(),
      ),
    setAside: (item: number) =>
      call(() => {
        if (fates[item] === "fatal") throw new StopError("stop");
        aside.add(item);
      }),
    probe: () => Promise.resolve(),
  };
  const loop = { ...createLoop(new AbortController().signal), report: (error: unknown) => reports.push(error) };
  const error = await runWork(work, loop).catch((error: unknown) => error);
  return { fates, handled, aside: [...aside], reports, error };
}

const fateArbitrary = (...fates: { fate: Fate; weight: number }[]) =>
  fc.oneof(...fates.map(({ fate, weight }) => ({ arbitrary: fc.constant(fate), weight })));
const outagesArbitrary = fc
  .array(fc.tuple(fc.integer({ min: 1, max: 25 }), fc.constantFrom("refused" as const, "response lost" as const)), {
    maxLength: 3,
  })
  .map((entries): Outages => new Map(entries));
const scenarioArbitrary = (fate: fc.Arbitrary<Fate>): fc.Arbitrary<Scenario> =>
  fc.record({
    batches: fc.array(fc.array(fate, { minLength: 1, maxLength: 20 }), { maxLength: 4 }),
    outages: outagesArbitrary,
  });

/** Checks many scenarios concurrently, because a loop pauses after each failure of the server. */
const assertAll = (arbitrary: fc.Arbitrary<Scenario>, check: (scenario: Scenario) => Promise<void>) =>
  fc.assert(
    fc.asyncProperty(fc.array(arbitrary, { minLength: 100, maxLength: 200 }), async (scenarios) => {
      const explain = (scenario: Scenario) => (error: Error) => {
        throw new Error(`${fc.stringify(scenario)}: ${error.message}`);
      };
      await Promise.all(scenarios.map((scenario) => check(scenario).catch(explain(scenario))));
    }),
    { numRuns: 5, endOnFailure: true, verbose: fc.VerbosityLevel.None },
  );

const listItems = (fates: readonly Fate[], ...chosen: Fate[]) =>
  fates.flatMap((fate, item) => (chosen.includes(fate) ? [item] : []));

describe("a loop of work", () => {
  it("whichever items or calls of a server fail, all other items are handled once and in order, and only bad and slow ones are set aside", () =>
    assertAll(
      scenarioArbitrary(
        fateArbitrary({ fate: "good", weight: 10 }, { fate: "bad", weight: 1 }, { fate: "slow", weight: 1 }),
      ),
      async (scenario) => {
        const { fates, handled, aside, reports, error } = await run(scenario);
        expect(error).to.equal(undefined);
        expect(handled).to.deep.equal(listItems(fates, "good"));
        expect(aside).to.deep.equal(listItems(fates, "bad", "slow"));
        expect(reports.at(-1)).to.equal(null);
      },
    ));

  it("an item after which the loop must stop ends it, when all earlier items are handled and no later one", () =>
    assertAll(
      scenarioArbitrary(
        fateArbitrary({ fate: "good", weight: 10 }, { fate: "bad", weight: 1 }, { fate: "fatal", weight: 1 }),
      ),
      async (scenario) => {
        const { fates, handled, aside, error } = await run(scenario);
        const end = fates.includes("fatal") ? fates.indexOf("fatal") : fates.length;
        expect(error instanceof StopError).to.equal(end < fates.length);
        expect(handled).to.deep.equal(listItems(fates.slice(0, end), "good"));
        expect(aside).to.deep.equal(listItems(fates.slice(0, end), "bad"));
      },
    ));

  const endlessFailures = {
    "a server is unavailable": new ServerError(),
    "Postgres cancels statements": createDatabaseError("57014"),
    "somebody locks rows": createDatabaseError("55P03"),
    "a failure is unknown": new TypeError("undefined is not a function"),
  };
  for (const [title, error] of Object.entries(endlessFailures))
    it(`while ${title}, also for other work, nothing is set aside, and an abort ends the loop before its next items`, async () => {
      const controller = new AbortController();
      let failureCount = 0;
      const fail = () => Promise.reject(error);
      const handle = () => {
        failureCount += 1;
        if (failureCount === 4) controller.abort();
        return fail();
      };
      let isSetAside = false;
      const setAside = () => {
        isSetAside = true;
        controller.abort();
      };
      let takenCount = 0;
      const take = async () => {
        takenCount += 1;
        return controller.signal.aborted ? undefined : [1];
      };
      await runWork({ take, handle, setAside, probe: fail }, createLoop(controller.signal));
      expect([failureCount, isSetAside, takenCount]).to.deep.equal([4, false, 1]);
    });

  it("a job is repeated after every error", async () => {
    const controller = new AbortController();
    const failures = [new ServerError(), new ItemError("refused"), new StopError("stop"), createDatabaseError("42501")];
    let pauseCount = 0;
    const job = async () => {
      const failure = failures.shift();
      if (failure) throw failure;
      return false;
    };
    await repeat(createLoop(controller.signal), job, async () => {
      pauseCount += 1;
      controller.abort();
    });
    expect([failures.length, pauseCount]).to.deep.equal([0, 1]);
  });

  it("concurrent tasks do not exceed their limit, and no task starts after an error or an abort", async () => {
    const controller = new AbortController();
    let [runningCount, mostCount, startedCount] = [0, 0, 0];
    const work = (end: (item: number) => void) =>
      forEachConcurrently(
        Array.from({ length: 20 }, (_, index) => index),
        async (item) => {
          startedCount += 1;
          runningCount += 1;
          mostCount = Math.max(mostCount, runningCount);
          await new Promise(setImmediate);
          runningCount -= 1;
          end(item);
        },
        { limit: 3, signal: controller.signal },
      );
    await work(() => undefined);
    expect([mostCount, startedCount, runningCount]).to.deep.equal([3, 20, 0]);
    startedCount = 0;
    const failure = new ServerError();
    const fail = (item: number) => {
      if (item === 0) throw failure;
    };
    expect(await work(fail).catch((error) => error)).to.equal(failure);
    expect([startedCount, runningCount]).to.deep.equal([3, 0]);
    await work(() => controller.abort());
    expect([startedCount, runningCount]).to.deep.equal([6, 0]);
  });
});
