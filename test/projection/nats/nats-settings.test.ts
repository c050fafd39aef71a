import { expect } from "chai";
import { NATS_SETTING_NAMES, validateNatsSettings } from "../../../projection/nats/nats-settings.ts";
import { ConfigError, readConfig } from "../../../shared/runtime/config.ts";
import { createNatsIdentities } from "../../support/nats-identities.ts";
import { getTlsFile } from "../../support/nats-server.ts";

const NATS_URL = "nats://127.0.0.1:4222";
const SEED = "SUAIBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJUA44CNHTC4";

function readNatsSettings(env: Record<string, string>) {
  return validateNatsSettings(readConfig(NATS_SETTING_NAMES, { NATS_URL, ...env }));
}

describe("settings of the connection to NATS", () => {
  it("only NATS_URL is required", () => {
    expect(readNatsSettings({}).NATS_URL).to.equal(NATS_URL);
  });

  it("credentials, certificates and replicas are read", () => {
    const { credentials } = createNatsIdentities();
    const [caFile, certFile, keyFile] = ["servers-ca.cert", "client.cert", "client.key"].map(getTlsFile);
    const env = { NATS_CA_FILE: caFile!, NATS_CERT_FILE: certFile!, NATS_KEY_FILE: keyFile! };
    expect(readNatsSettings({ ...env, NATS_CREDENTIALS: credentials, NATS_STREAM_REPLICAS: "3" })).to.deep.equal({
      ...env,
      NATS_URL,
      NATS_CREDENTIALS: credentials,
      NATS_NKEY_SEED: undefined,
      NATS_STREAM_REPLICAS: 3,
    });
    expect(readNatsSettings({ NATS_NKEY_SEED: SEED }).NATS_NKEY_SEED).to.equal(SEED);
  });

  const certFile = getTlsFile("client.cert");
  for (const [env, message] of [
    [{ NATS_NKEY_SEED: `${SEED.slice(0, -1)}A` }, "NATS_NKEY_SEED must be an nkey seed of a user"],
    [{ NATS_CREDENTIALS: SEED }, "NATS_CREDENTIALS must be the content of a NATS credentials file"],
    [{ NATS_CERT_FILE: certFile }, "NATS_CERT_FILE and NATS_KEY_FILE must be set together"],
    [{ NATS_CA_FILE: "/nowhere/ca.pem" }, "NATS_CA_FILE names a file that cannot be read (ENOENT)"],
    [{ NATS_CA_FILE: getTlsFile("client.key") }, "NATS_CA_FILE must name a PEM file with a certificate"],
    [
      { NATS_CERT_FILE: certFile, NATS_KEY_FILE: getTlsFile("server.key") },
      "NATS_KEY_FILE must contain the key of the certificate in NATS_CERT_FILE",
    ],
    [
      { NATS_URL: "nats://me:hunter2@a", NATS_NKEY_SEED: SEED },
      "only one of these may be set: credentials in NATS_URL, NATS_NKEY_SEED",
    ],
    [{ NATS_STREAM_REPLICAS: "0" }, "NATS_STREAM_REPLICAS must be at least 1"],
  ] as [Record<string, string>, string][])
    it(`the settings ${Object.keys(env).join(" and ")} are refused: ${message}`, () => {
      expect(() => readNatsSettings(env))
        .to.throw(ConfigError, message)
        .with.property("message")
        .that.does.not.match(/hunter2|SUAI|\n/);
    });
});
