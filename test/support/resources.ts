/**
 * Releases what tests have created, so that tests need no hooks for it: after the test, if the resource was created in
 * the test or in a hook `beforeEach`, and otherwise after the last test of the outermost suite.
 */
import { Server } from "node:net";
import { eventually } from "./eventually.ts";

type Release = () => unknown;

interface Resources {
  ofTest: Set<Release>;
  ofSuite: Set<Release>;
  isInTest: boolean;
  /** Servers that listen in this process, with errors that show where they were started. */
  servers: Map<Server, Error>;
}

// Mocha can load this file twice, by require and by import. So the state is global instead of a module variable.
const STATE_KEY: unique symbol = Symbol.for("clinic-service.test-resources");
const globalState = globalThis as { [STATE_KEY]?: Resources };
if (!globalState[STATE_KEY]) {
  globalState[STATE_KEY] = { ofTest: new Set(), ofSuite: new Set(), isInTest: false, servers: new Map() };
  recordServers(globalState[STATE_KEY].servers);
}
const state = globalState[STATE_KEY];

/**
 * Registers a function that releases a resource. Later resources are released first.
 *
 * @returns a function that releases the resource now. The resource is released only once
 */
export function releaseLater(release: Release): () => Promise<void> {
  const releases = state.isInTest ? state.ofTest : state.ofSuite;
  let releasePromise: Promise<void> | undefined;
  const runOnce = () => {
    releases.delete(runOnce);
    releasePromise ??= (async () => void (await release()))();
    return releasePromise;
  };
  releases.add(runOnce);
  return runOnce;
}

/**
 * Waits for the start of a service or server, and stops it like {@link releaseLater}, also if a later step of the set-up
 * fails. Tests can stop it earlier.
 */
export async function autoStop<Started extends { stop(): unknown } | { close(): unknown }>(
  startPromise: Promise<Started>,
): Promise<Started> {
  const started = await startPromise;
  return "stop" in started
    ? { ...started, stop: releaseLater(() => started.stop()) }
    : { ...started, close: releaseLater(() => started.close()) };
}

/** Releases what suites have created, and what a program without mocha's hooks has created. */
export const releaseResources = () => releaseAll(state.ofSuite);

async function releaseAll(releases: Set<Release>): Promise<void> {
  const errors: unknown[] = [];
  for (const release of [...releases].reverse())
    await Promise.resolve(release()).catch((error: unknown) => errors.push(error));
  if (errors.length > 0) throw new AggregateError(errors, "resources of tests could not be released");
}

/** Records every server of this process when it starts to listen. */
function recordServers(servers: Map<Server, Error>): void {
  const { listen } = Server.prototype;
  Server.prototype.listen = function (this: Server, ...args: unknown[]) {
    servers.set(this, new Error("A server of a test was left open"));
    this.once("close", () => servers.delete(this));
    return Reflect.apply(listen, this, args);
  };
}

/**
 * Fails if tests have left a server open, and closes the server. It would keep the process from ending after its last
 * file, without a hint at the test that started it.
 */
export async function requireNoServers(timeoutMs = 10_000): Promise<void> {
  const listOpenServers = () => [...state.servers].filter(([server]) => server.listening);
  await eventually("no server", () => listOpenServers().length === 0, timeoutMs).catch(() => undefined);
  const openServers = listOpenServers();
  for (const [server] of openServers) server.close().unref();
  if (openServers.length > 0) throw new Error(openServers.map(([, { stack }]) => stack).join("\n"));
}

/** Hooks of all test files. */
export const mochaHooks = {
  beforeAll(this: Mocha.Context) {
    for (const suite of this.test?.parent?.suites ?? []) suite.afterAll(releaseResources);
  },
  beforeEach() {
    state.isInTest = true;
  },
  async afterEach() {
    state.isInTest = false;
    await releaseAll(state.ofTest);
  },
  afterAll: () => requireNoServers(),
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
