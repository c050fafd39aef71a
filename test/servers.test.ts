/** Checks that tests close their servers. An open server would keep the process from ending. */
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect } from "chai";
import { PROJECT_FOLDER } from "../deploy/local/setup/project.ts";
import { getRejection } from "./support/rejection.ts";
import { requireNoServers } from "./support/resources.ts";

const TEST_FOLDER = join(PROJECT_FOLDER, "test");

/** Files that may call `listen` or `bindAsync` directly, with the reason. */
const EXCEPTIONS = {
  "support/loopback.ts": "The helper itself.",
  "support/unresponsive-server.ts": "The server listens in a thread, which is terminated.",
  "projection/webhooks/send/receivers.test.ts": "The server listens in a thread, which is terminated.",
  "shared/eventstore/batch-append.test.ts": "A server of gRPC has no helper.",
  "servers.test.ts": "Tests what happens to an open server.",
};

describe("the servers of tests", () => {
  it("all servers of tests listen by means of listenOnLoopback, which closes them also if a set-up fails", () => {
    const files = readdirSync(TEST_FOLDER, { recursive: true, encoding: "utf8" }).filter(
      // Benchmarks and deployments run in processes of their own.
      (name) => name.endsWith(".ts") && !/^(bench|deploy\/(alerts|containers|machines))\//.test(name),
    );
    const listeningFiles = files.filter((name) =>
      /\.(listen|bindAsync)\(/.test(readFileSync(join(TEST_FOLDER, name), "utf8")),
    );
    expect(listeningFiles).to.have.members(Object.keys(EXCEPTIONS));
  });

  it("a server that a test leaves open fails the file, is named with the line that started it, and is closed", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    const { message } = await getRejection(requireNoServers(0));
    expect(message).to.match(/left open[\s\S]*servers\.test\.[jt]s/);
    expect(server.listening).to.equal(false);
    await requireNoServers(0);
  });
});
