import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "chai";
import { natsUrl, serverUrls } from "../../../projection/cli/server-urls.ts";
import { ConfigError } from "../../../shared/runtime/config.ts";
import { makeTestRoot } from "../../support/stack.ts";

const stack = {
  EVENTSTORE_URL: "esdb://127.0.0.1:8113?tls=false",
  DATABASE_URL: "postgres://local@127.0.0.1:8432/clinic",
};
const others = {
  EVENTSTORE_URL: "esdb://log.example.com:2113",
  DATABASE_URL: "postgres://owner@db.example.com/clinic",
};

describe("the servers of the projection command line", () => {
  const folder = makeTestRoot();

  before(() => {
    const postgres = { projection: stack.DATABASE_URL };
    const urls = { eventstore: stack.EVENTSTORE_URL, nats: "nats://127.0.0.1:8422", postgres };
    return writeFile(join(folder, "stack.json"), JSON.stringify({ urls }));
  });

  const found = (env: NodeJS.ProcessEnv) => serverUrls({ LOCAL_DIR: folder, ...env });
  const refusal = (env: NodeJS.ProcessEnv) => {
    try {
      return JSON.stringify(found(env));
    } catch (error) {
      expect(error).to.be.instanceOf(ConfigError);
      return (error as ConfigError).message;
    }
  };

  it("are those that are named, both", () => {
    expect(found(others)).to.deep.equal(others);
  });

  it("are the local stack's where none is named", () => {
    for (const env of [{}, { EVENTSTORE_URL: "", DATABASE_URL: "" }]) expect(found(env)).to.deep.equal(stack);
  });

  it("are the local stack's where the one that is named is the stack's own", () => {
    const { EVENTSTORE_URL, DATABASE_URL } = stack;
    expect(found({ EVENTSTORE_URL })).to.deep.equal(stack);
    expect(found({ DATABASE_URL })).to.deep.equal(stack);
  });

  it("are not one of each, with or without a stack that runs", () => {
    const { EVENTSTORE_URL, DATABASE_URL } = others;
    const end = "set both, or neither for the local stack that runs";
    for (const LOCAL_DIR of [folder, "/nonexistent"]) {
      expect(refusal({ LOCAL_DIR, EVENTSTORE_URL })).to.equal(
        `EVENTSTORE_URL is set and DATABASE_URL is not: ${end}`,
      );
      expect(refusal({ LOCAL_DIR, DATABASE_URL })).to.equal(
        `DATABASE_URL is set and EVENTSTORE_URL is not: ${end}`,
      );
    }
  });

  it("are named in one line where they are wrong or nowhere", () => {
    expect(refusal({ ...others, DATABASE_URL: "mysql://x" })).to.match(/^settings: DATABASE_URL [^\n]*$/);
    expect(refusal({ LOCAL_DIR: "/nonexistent" })).to.contain("no local stack runs");
  });

  it("have the local stack's NATS server only beside the stack's own database", () => {
    const env = { LOCAL_DIR: folder };
    expect(natsUrl(env, stack.DATABASE_URL)).to.equal("nats://127.0.0.1:8422");
    expect(natsUrl({ ...env, NATS_URL: "nats://n.example.com:4222" }, stack.DATABASE_URL)).to.equal(
      "nats://n.example.com:4222",
    );
    expect(() => natsUrl(env, others.DATABASE_URL)).to.throw(ConfigError, "NATS_URL is missing");
  });
});
