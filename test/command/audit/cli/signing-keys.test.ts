import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "chai";
import { makeTestRoot } from "../../../support/stack.ts";
import { audit } from "../cli-terminal.ts";
import { newSigningKeys } from "../world.ts";

const LOCAL = "esdb://127.0.0.1:8113?tls=false";
const OTHER = "esdb://log.example.com:2113";

describe("the keys that sign exports", () => {
  const folder = makeTestRoot();
  let stackKeys: string;
  let ownKeys: string;

  before(async () => {
    stackKeys = await newSigningKeys("of-the-stack");
    ownKeys = await newSigningKeys("own");
    const urls = { eventstore: LOCAL, postgres: { projection: "postgres://127.0.0.1/clinic" } };
    await writeFile(join(folder, "stack.json"), JSON.stringify({ urls, auditSigningKeys: stackKeys }));
  });

  const keys = async (env: NodeJS.ProcessEnv) => {
    const { code, out, err } = await audit(["keys"], { env: { LOCAL_DIR: folder, ...env } });
    return { code, err, ids: out && JSON.parse(out).keys.map(({ kid }: { kid: string }) => kid) };
  };

  it("are the local stack's for its own log, named or not", async () => {
    for (const env of [{}, { EVENTSTORE_URL: "" }, { EVENTSTORE_URL: LOCAL }])
      expect(await keys(env)).to.deep.equal({ code: 0, err: [], ids: ["of-the-stack"] });
  });

  it("are not the local stack's for a log that is another's: one line names the setting to give", async () => {
    const { code, err, ids } = await keys({ EVENTSTORE_URL: OTHER });
    expect([code, err.length, ids]).to.deep.equal([2, 1, ""]);
    expect(err[0]).to.match(/^audit: settings: AUDIT_SIGNING_KEYS is missing [^\n]*$/);
    const nobody = await keys({ EVENTSTORE_URL: OTHER, LOCAL_DIR: "/nonexistent" });
    expect(nobody).to.deep.equal({ code, err, ids });
  });

  it("are those that are given, whatever the log", async () => {
    for (const env of [{}, { EVENTSTORE_URL: OTHER }])
      expect((await keys({ ...env, AUDIT_SIGNING_KEYS: ownKeys })).ids).to.deep.equal(["own"]);
  });
});
