/**
 * Releases what tests have created, so that tests need no hooks for it: after the test, if the resource was created in
 * the test or in a hook `beforeEach`, and otherwise after the last test of the outermost suite.
 */
type Release = () => unknown;

interface Resources {
  ofTest: Set<Release>;
  ofSuite: Set<Release>;
  isInTest: boolean;
}

// Mocha can load this file twice, by require and by import. So the state is global instead of a module variable.
const STATE_KEY: unique symbol = Symbol.for("clinic-service.test-resources");
const globalState = globalThis as { [STATE_KEY]?: Resources };
globalState[STATE_KEY] ??= { ofTest: new Set(), ofSuite: new Set(), isInTest: false };
const state = globalState[STATE_KEY];

/**
 * Registers a function that releases a resource. Later resources are released first.
 *
 * @returns a function that releases the resource now. The resource is released only once
 */
export function releaseLater(release: Release): () => Promise<void> {
  const releases = state.isInTest ? state.ofTest : state.ofSuite;
  const runOnce = async () => {
    if (releases.delete(runOnce)) await release();
  };
  releases.add(runOnce);
  return runOnce;
}

async function releaseAll(releases: Set<Release>): Promise<void> {
  const errors: unknown[] = [];
  for (const release of [...releases].reverse())
    await Promise.resolve(release()).catch((error: unknown) => errors.push(error));
  if (errors.length > 0) throw new AggregateError(errors, "resources of tests could not be released");
}

/** Hooks of all test files. */
export const mochaHooks = {
  beforeAll(this: Mocha.Context) {
    for (const suite of this.test?.parent?.suites ?? []) suite.afterAll(() => releaseAll(state.ofSuite));
  },
  beforeEach() {
    state.isInTest = true;
  },
  async afterEach() {
    state.isInTest = false;
    await releaseAll(state.ofTest);
  },
};

/**
 * Creates a resource before the tests of a suite, or before each test. The resource must have no state of its own besides
 * its closures. The returned object has no members before mocha has run the hook.
 */
export function useResource<Resource extends object>(
  create: () => Promise<Resource>,
  scope: "suite" | "test" = "suite",
): Resource {
  const resource = {} as Resource;
  (scope === "suite" ? before : beforeEach)(async () => {
    Object.assign(resource, await create());
  });
  return resource;
}
