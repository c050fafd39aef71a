import { createServer } from "node:net";
import { expect } from "chai";
import { nkeys } from "nats";
import { connectNats, NatsUnavailableError } from "../../../projection/nats/nats-session.ts";
import type { NatsSettings } from "../../../projection/nats/nats-settings.ts";
import { listenOnLoopback } from "../../support/loopback.ts";
import { createNatsIdentities } from "../../support/nats-identities.ts";
import { getTlsFile, type NatsServer, startNatsServer, TLS_BLOCK } from "../../support/nats-server.ts";

/** Characters that have a meaning in URLs and in lists. */
const PASSWORD = "p,a:s%s/w@rd";
const ENCODED_PASSWORD = encodeURIComponent(PASSWORD);
const TOKEN = "t,k@n%";

const decoder = new TextDecoder();
const tlsFiles = {
  NATS_CA_FILE: getTlsFile("servers-ca.cert"),
  NATS_CERT_FILE: getTlsFile("client.cert"),
  NATS_KEY_FILE: getTlsFile("client.key"),
};

async function connectAndClose(settings: NatsSettings): Promise<void> {
  const connection = await connectNats(settings, "test", 20_000);
  await connection.close();
}

async function getError(settings: NatsSettings): Promise<string> {
  return connectAndClose(settings).then(
    () => "connected",
    (error: Error) => error.message,
  );
}

describe("connections to NATS", () => {
  const user = nkeys.createUser();
  const NATS_NKEY_SEED = decoder.decode(user.getSeed());
  const identities = createNatsIdentities();
  let open: NatsServer;
  let passwordServer: NatsServer;
  let tokenServer: NatsServer;
  let jwtServer: NatsServer;
  let tlsServer: NatsServer;

  before(async () => {
    const users = `{ user: "clinic", password: "${PASSWORD}" }, { nkey: "${user.getPublicKey()}" }`;
    [open, passwordServer, tokenServer, jwtServer, tlsServer] = (await Promise.all(
      [
        "",
        `authorization { users: [ ${users} ] }`,
        `authorization { token: "${TOKEN}" }`,
        identities.serverConfig,
        TLS_BLOCK,
      ].map(startNatsServer),
    )) as [NatsServer, NatsServer, NatsServer, NatsServer, NatsServer];
  });
  after(() => Promise.all([open, passwordServer, tokenServer, jwtServer, tlsServer].map((server) => server.kill())));

  it("a user and a password in the URL are decoded", async () => {
    await connectAndClose({ NATS_URL: `nats://clinic:${ENCODED_PASSWORD}@${passwordServer.host}` });
  });

  it("a token in the URL is decoded", async () => {
    await connectAndClose({ NATS_URL: `nats://${encodeURIComponent(TOKEN)}@${tokenServer.host}` });
  });

  it("the first credentials in the list apply to the servers without credentials", async () => {
    await connectAndClose({ NATS_URL: `nats://clinic:${ENCODED_PASSWORD}@127.0.0.1:1,nats://${passwordServer.host}` });
  });

  it("each server in the list can have its own credentials", async () => {
    const token = encodeURIComponent(TOKEN);
    const urls = [`nats://clinic:${ENCODED_PASSWORD}@127.0.0.1:1`, `nats://${token}@${tokenServer.host}`];
    await connectAndClose({ NATS_URL: urls.join(",") });
    await connectAndClose({ NATS_URL: urls.reverse().join(", ") });
  });

  it("an nkey seed and a credentials file are accepted", async () => {
    await connectAndClose({ NATS_URL: `nats://${passwordServer.host}`, NATS_NKEY_SEED });
    await connectAndClose({ NATS_URL: `nats://${jwtServer.host}`, NATS_CREDENTIALS: identities.credentials });
  });

  it("a server that requires TLS and a client certificate is accepted, with tls:// and with nats://", async () => {
    await connectAndClose({ NATS_URL: `tls://${tlsServer.host}`, ...tlsFiles });
    await connectAndClose({ NATS_URL: `nats://${tlsServer.host}`, ...tlsFiles });
  });

  it("refused credentials are reported in one line that names the setting, but not the secret", async () => {
    const otherSeed = decoder.decode(nkeys.createUser().getSeed());
    const otherCredentials = createNatsIdentities().credentials;
    const cases: [NatsServer, NatsSettings, string][] = [
      [
        passwordServer,
        { NATS_URL: `nats://clinic:hunter2@${passwordServer.host}` },
        "access denied; check the user and password in NATS_URL",
      ],
      [tokenServer, { NATS_URL: `nats://hunter2@${tokenServer.host}` }, "access denied; check the token in NATS_URL"],
      [
        passwordServer,
        { NATS_URL: `nats://${passwordServer.host}` },
        "access denied; check NATS_URL, which contains no credentials",
      ],
      [
        passwordServer,
        { NATS_URL: `nats://${passwordServer.host}`, NATS_NKEY_SEED: otherSeed },
        "access denied; check NATS_NKEY_SEED",
      ],
      [
        jwtServer,
        { NATS_URL: `nats://${jwtServer.host}`, NATS_CREDENTIALS: otherCredentials },
        "access denied; check NATS_CREDENTIALS",
      ],
    ];
    for (const [server, settings, problem] of cases)
      expect(await getError(settings)).to.equal(
        `NATS_URL: no server accepts the connection (${server.host}: ${problem})`,
      );
  });

  it("TLS problems are reported with the setting to check", async () => {
    const { NATS_CA_FILE, ...clientFiles } = tlsFiles;
    const NATS_URL = `tls://${tlsServer.host}`;
    expect(await getError({ NATS_URL, ...clientFiles })).to.match(/certificate.*; check NATS_CA_FILE\)$/);
    expect(await getError({ NATS_URL, NATS_CA_FILE })).to.match(
      /closed the connection .*; if it requires TLS, check NATS_CERT_FILE and NATS_KEY_FILE\)$/,
    );
    expect(await getError({ NATS_URL: `tls://${open.host}` })).to.include("the server does not offer TLS");
  });

  it("a server that requires TLS and closes the connection after its greeting is reported, and the process continues", async () => {
    // An uncaught error would fail the test.
    const greeting = `INFO {"version":"2.10.0","proto":1,"max_payload":1024,"tls_required":true}\r\n`;
    for (const delayMs of [0, 1, 3, 10]) {
      const server = createServer((socket) => {
        socket.on("error", () => undefined);
        socket.write(greeting, () => setTimeout(() => socket.resetAndDestroy(), delayMs));
      });
      const { host } = await listenOnLoopback(server);
      expect(await getError({ NATS_URL: `nats://${host}`, ...tlsFiles })).to.include(`${host}: the server closed`);
    }
  });

  it("after an abort, no further server is tried", async () => {
    const controller = new AbortController();
    let connectionCount = 0;
    const server = createServer((socket) => {
      connectionCount += 1;
      controller.abort();
      socket.destroy();
    });
    const { port } = await listenOnLoopback(server);
    const NATS_URL = `nats://127.0.0.1:${port},nats://localhost:${port}`;
    const error = await connectNats({ NATS_URL }, "test", 20_000, controller.signal).catch((error: Error) => error);
    expect(error).to.be.instanceOf(NatsUnavailableError);
    expect(connectionCount).to.equal(1);
  });

  it("if no server is available, the error names the reason for each server", async () => {
    const message = await getError({ NATS_URL: `nats://me:hunter2@127.0.0.1:1,nats://${tokenServer.host}` });
    expect(message).to.include("127.0.0.1:1: connection refused").and.include(`${tokenServer.host}: access denied`);
    expect(message).to.not.include("hunter2");
  });
});
