/**
 * Releases resources of tests without extra hooks. Resources of a test or of a `beforeEach` hook are released after the
 * test. All others are released after the outermost suite.
 */
import { Server } from "node:net";
import { eventually } from "./eventually.ts";

type Release = () => unknown;

interface Resources {
  ofTest: Set<Release>;
  ofSuite: Set<Release>;
  isInTest: boolean;
  /** Listening servers of this process. The error's stack shows where each was started. */
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
 * Registers a function that releases a resource at the end. Later resources are released first.
 *
 * @returns a function that releases the resource now instead. The resource is released only once
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
 * Waits for the start of a service or server, and registers its stop with {@link releaseLater}. It is therefore stopped
 * even if a later step of the setup fails. Tests can stop it earlier.
 */
export async function autoStop<Started extends { stop(): unknown } | { close(): unknown }>(
  startPromise: Promise<Started>,
): Promise<Started> {
  const started = await startPromise;
  return "stop" in started
    ? { ...started, stop: releaseLater(() => started.stop()) }
    : { ...started, close: releaseLater(() => started.close()) };
}

/** Releases the resources of suites, and of programs without mocha. */
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
 * Fails if tests have left a server open, and closes the server. It would otherwise keep the process from ending, and
 * nothing would name the test that started it.
 */
export async function requireNoServers(timeoutMs = 10_000): Promise<void> {
  const listOpenServers = () => [...state.servers].filter(([server]) => server.listening);
  await eventually("no server", () => listOpenServers().length === 0, timeoutMs).catch(() => undefined);
  const openServers = listOpenServers();
  for (const [server] of openServers) server.close().unref();
  if (openServers.length > 0) throw new Error(openServers.map(([, { stack }]) => stack).join("\n"));
}

/** Root hooks of mocha. */
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
 * Creates a resource before a test suite, or before each test. Returns an object that gets the resource's properties
 * when the hook runs. The resource must keep its state in closures, because its properties are copied.
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
