import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { copyFile } from "node:fs/promises";
import { createServer } from "node:net";
import path from "node:path";
import { expect } from "chai";
import type pg from "pg";
import { pino } from "pino";
import { buildNodeCommand, PROJECT_FOLDER } from "../../../deploy/local/setup/project.ts";
import { prepareDatabase } from "../../../projection/prepare-database.ts";
import { startQueryApi } from "../../../query-api/start.ts";
import { createClient } from "../../../shared/postgres/client.ts";
import { findServer } from "../../../shared/postgres/find-server.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { ConfigError } from "../../../shared/runtime/config.ts";
import { isPostgresUnavailable } from "../../../shared/runtime/failures.ts";
import { eventually } from "../../support/eventually.ts";
import { listenOnLoopback } from "../../support/loopback.ts";
import { TOKEN_ISSUER } from "../../support/partner.ts";
import { type Partner, type PartnerApi, startPartnerApi } from "../../support/partner-api.ts";
import { getTlsPath, startPostgresPair } from "../../support/postgres-pair.ts";
import { queryEnvironment } from "../../support/query-environment.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { getRejection } from "../../support/rejection.ts";
import { useResource } from "../../support/resources.ts";
import { getTestServers, makeTestRoot } from "../../support/stack.ts";
import { startUnresponsiveServer } from "../../support/unresponsive-server.ts";

const logger = pino({ enabled: false });

describe("Postgres with TLS and a standby", () => {
  const pair = useResource(startPostgresPair);

  /** Returns the projection's database URL with changed options. */
  const buildUrl = (options: Record<string, string>, hosts?: string) => {
    const [baseUrl, query] = pair.urls.projection.split("?") as [string, string];
    const newBaseUrl = hosts === undefined ? baseUrl : baseUrl.replace(/@.*\//, `@${hosts}/`);
    return `${newBaseUrl}?${new URLSearchParams({ ...Object.fromEntries(new URLSearchParams(query)), ...options })}`;
  };
  const withClient = async <Result>(url: string, run: (client: pg.Client) => Promise<Result>) => {
    const client = createClient(url, {});
    await client.connect();
    return run(client).finally(() => client.end());
  };
  const createTestPool = (url: string) =>
    createPool({ url, applicationName: "test", size: 1, statementTimeoutMs: 5_000, logger });
  const readPort = (url: string) =>
    withClient(url, async (client) => (await client.query("SELECT inet_server_port() AS port")).rows[0].port);
  const getConnectError = (url: string) => getRejection(readPort(url));

  it("connections are encrypted and use SCRAM", async () => {
    await withClient(pair.urls.query, async (client) => {
      const { rows } = await client.query("SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()");
      expect(rows).to.deep.equal([{ ssl: true, version: "TLSv1.3" }]);
    });
    expect(await getConnectError(buildUrl({ sslmode: "disable" })))
      .to.have.property("message")
      .that.matches(/pg_hba/);
    const rules = await pair.query("primary", "SELECT DISTINCT auth_method FROM pg_hba_file_rules");
    expect(rules).to.deep.equal([{ auth_method: "scram-sha-256" }]);
  });

  for (const [kind, expectedServer] of [
    ["any", "standby"],
    ["read-write", "primary"],
    ["read-only", "standby"],
    ["primary", "primary"],
    ["standby", "standby"],
    ["prefer-standby", "standby"],
  ] as const)
    it(`with the standby first and target_session_attrs=${kind}, a client connects to the ${expectedServer}`, async () => {
      const port = await readPort(buildUrl({ target_session_attrs: kind }));
      expect(port).to.equal(pair.ports[expectedServer]);
    });

  it("a client skips hosts that are unreachable", async () => {
    const hosts = `localhost:1,does-not-exist.invalid,localhost:${pair.ports.primary}`;
    expect(await readPort(buildUrl({}, hosts))).to.equal(pair.ports.primary);
    const standbyUrl = buildUrl({ target_session_attrs: "prefer-standby" }, hosts);
    expect(await readPort(standbyUrl)).to.equal(pair.ports.primary);
  });

  it("a client does not wait for a host that does not respond", async () => {
    const unresponsiveServer = await startUnresponsiveServer();
    const hosts = `localhost:${unresponsiveServer.port},localhost:${pair.ports.primary}`;
    const startedAtMs = performance.now();
    expect(await readPort(buildUrl({}, hosts))).to.equal(pair.ports.primary);
    expect(performance.now() - startedAtMs).to.be.below(20_000);
  });

  it("if no host is suitable, the error is temporary and names the reason for each host", async () => {
    const { standby: standbyPort } = pair.ports;
    const singleHostError = await getConnectError(buildUrl({}, `localhost:${standbyPort}`));
    expect(singleHostError.message).to.equal("the server is read-only");
    const error = await getConnectError(buildUrl({}, `localhost:1,localhost:${standbyPort}`));
    expect(error.message).to.match(
      /^No server of DATABASE_URL is suitable \(localhost:1: .*ECONNREFUSED.*; localhost:\d+: the server is read-only\)\.$/,
    );
    for (const temporaryError of [singleHostError, error]) expect(isPostgresUnavailable(temporaryError)).to.equal(true);
  });

  it("if no host is suitable, the error also names the hosts that do not answer", async () => {
    const { port } = await listenOnLoopback(createServer());
    const servers = [port, 1].map((port) => ({ host: "127.0.0.1", port }));
    const error = await findServer({ servers, serverKind: "any", login: {}, timeoutMs: 500 }).catch(
      (error: Error) => error,
    );
    expect((error as Error).message).to.match(
      /\(127\.0\.0\.1:1: .*ECONNREFUSED.*; 127\.0\.0\.1:\d+: timeout expired\)\.$/,
    );
  });

  it("a certificate of another CA is refused", async () => {
    const error = await getConnectError(buildUrl({ sslrootcert: getTlsPath("hooks.partner.example.cert.pem") }));
    expect(error.message).to.match(
      /^No server of DATABASE_URL is suitable \(localhost:\d+: self-signed certificate in certificate chain;/,
    );
    expect(isPostgresUnavailable(error)).to.equal(false);
  });

  it("a server with another host name is refused", async () => {
    const error = await getConnectError(buildUrl({}, `127.0.0.1:${pair.ports.primary}`));
    expect(error.message).to.match(/^Hostname\/IP does not match certificate's altnames/);
    expect(await readPort(buildUrl({ sslmode: "no-verify" }, `127.0.0.1:${pair.ports.primary}`))).to.be.a("number");
  });

  it("a missing certificate file is a configuration error", () => {
    expect(() => createClient(buildUrl({ sslrootcert: "/missing/ca.pem" }), {})).to.throw(
      ConfigError,
      "settings: DATABASE_URL names the file /missing/ca.pem, which cannot be read (ENOENT)",
    );
  });

  it("a pool uses a renewed certificate file for its next connection", async () => {
    const caFile = path.join(makeTestRoot(), "ca.pem");
    await copyFile(getTlsPath("hooks.partner.example.cert.pem"), caFile);
    const pool = createTestPool(buildUrl({ sslrootcert: caFile }));
    try {
      const refusal = await pool.query("SELECT 1").catch((error: Error) => error);
      expect(refusal).to.be.instanceOf(Error);
      await copyFile(getTlsPath("test-ca.cert.pem"), caFile);
      expect((await pool.query("SELECT 1")).rowCount).to.equal(1);
    } finally {
      await pool.end();
    }
  });

  it("a user who needs a client certificate can log in only with sslcert and sslkey", async () => {
    await pair.query("primary", "CREATE ROLE with_certificate");
    await pair.query("primary", "CREATE ROLE certified LOGIN PASSWORD 'secret' IN ROLE with_certificate");
    const buildCertifiedUrl = (options: Record<string, string>) =>
      buildUrl(options)
        .replace(/\/\/.*@/, "//certified:secret@")
        .replace("/clinic?", "/postgres?");
    const error = await getConnectError(buildCertifiedUrl({}));
    expect(error.message).to.match(/connection requires a valid client certificate/);
    const certificateOptions = {
      sslcert: getTlsPath("database-client.cert.pem"),
      sslkey: getTlsPath("database-client.key.pem"),
    };
    expect(await readPort(buildCertifiedUrl(certificateOptions))).to.equal(pair.ports.primary);
  });

  it("a pool whose server becomes read-only drops its connection and continues on another server", async () => {
    const pool = createTestPool(buildUrl({}, `localhost:${pair.ports.primary}`));
    const write = () => pool.query("CREATE TEMPORARY TABLE IF NOT EXISTS t (n int)");
    await write();
    await pair.query("primary", "ALTER SYSTEM SET default_transaction_read_only = on");
    await pair.query("primary", "SELECT pg_reload_conf()");
    const error = await eventually("a refused connection", () =>
      write().then(
        () => undefined,
        (reason: Error) => reason.name === "UnsuitableServerError" && reason,
      ),
    );
    expect(isPostgresUnavailable(error)).to.equal(true);
    await pair.query("primary", "ALTER SYSTEM RESET default_transaction_read_only");
    await pair.query("primary", "SELECT pg_reload_conf()");
    await eventually("a write", () =>
      write().then(
        () => true,
        () => false,
      ),
    );
    await pool.end();
  });

  it("a service that cannot connect prints one line without the password", async () => {
    const { eventstoreUrl } = await getTestServers();
    const runStatus = (databaseUrl: string) => {
      const { command, args } = buildNodeCommand("projection/cli/main.ts", ["status"]);
      const env = { PATH: process.env.PATH, EVENTSTORE_URL: eventstoreUrl, DATABASE_URL: databaseUrl };
      return spawnSync(command, args, { cwd: PROJECT_FOLDER, env, encoding: "utf8" });
    };
    const sslrootcert = getTlsPath("hooks.partner.example.cert.pem");
    const { status, stderr } = runStatus(buildUrl({ sslrootcert }));
    expect(status).to.equal(2);
    expect(stderr).to.match(
      /^projection: The database is unavailable\. Check DATABASE_URL\. \(No server of DATABASE_URL is suitable \(.*\)\.\)\n$/,
    );
    expect(stderr).not.to.include(new URL(buildUrl({}, "host")).password);
  });

  describe("a failover while the services run", () => {
    let api: PartnerApi;
    let receiver: Receiver;
    let partner: Partner;
    // biome-ignore lint/suspicious/noExplicitAny: the API's responses have no type in tests
    let sandbox: any;

    before(async () => {
      const pool = createTestPool(pair.urls.projection);
      await prepareDatabase(pair.urls.projection, pool, logger);
      await pool.end();
      receiver = await startReceiver();
      api = await startPartnerApi({
        database: { urls: pair.urls, drop: async () => undefined },
        projectionEnv: { ROLES: "projectors,relay,webhooks", WEBHOOK_ALLOW_LOOPBACK: "true" },
      });
      partner = await api.createPartner();
      // Reads return 503 until the projectors have filled the read models.
      sandbox = await eventually("a read", async () => (await partner.request("GET", "/sandbox")).body.sandbox);
      const endpoint = { url: receiver.url, events: ["appointment.created"] };
      const headers = { "X-SERVICE-Clinic-ID": sandbox.clinicId };
      const { status, text } = await partner.request("POST", "/webhook-endpoints", { headers, body: endpoint });
      expect(status, text).to.equal(201);
    });

    const scheduledAt = new Date(Date.now() + 3 * 86_400_000).toISOString();
    const createdIds: string[] = [];
    const createAppointment = async () => (await createAppointmentAt()).id;
    /** Creates an appointment. @returns its id and log position */
    const createAppointmentAt = async (): Promise<{ id: string; position: string }> => {
      const { status, body, headers } = await partner.request("POST", "/appointments", {
        headers: { "X-SERVICE-Clinic-ID": sandbox.clinicId, "Idempotency-Key": randomUUID() },
        body: { branchId: sandbox.branches[0].id, animalId: sandbox.animals[0].id, scheduledAt },
      });
      expect(status, JSON.stringify(body)).to.equal(201);
      createdIds.push(body.appointment.id);
      return { id: body.appointment.id, position: headers.get("X-SERVICE-Log-Position") ?? "" };
    };
    const listAppointmentIds = async (): Promise<string[]> => {
      const to = new Date(Date.now() + 20 * 86_400_000).toISOString();
      const response = await eventually("a read", async () => {
        const response = await partner.request("GET", `/appointments?limit=250&to=${to}`, {
          headers: { "X-SERVICE-Clinic-ID": sandbox.clinicId },
        });
        return response.status !== 503 && response;
      });
      expect(response.status).to.equal(200);
      return response.body.appointments.map(({ id }: { id: string }) => id);
    };
    const expectAppointmentsArrived = async (ids: string[]) => {
      expect(await listAppointmentIds()).to.include.members(ids);
      await eventually("the webhooks", () => {
        const bodies = receiver.requests.map(({ body }) => body);
        return ids.every((id) => bodies.some((body) => body.includes(id)));
      });
    };
    const isReady = async (url: string) => (await fetch(`${url}/health/ready`)).status === 200;

    it("query-api can read from the standby, and still reflects the writes of the caller", async () => {
      const readUrl = buildUrl({ target_session_attrs: "standby" }, `localhost:${pair.ports.standby}`).replace(
        /\/\/.*@/,
        /\/\/.*@/.exec(pair.urls.query)?.[0] ?? "",
      );
      const queryApi = await startQueryApi({
        ...queryEnvironment,
        DATABASE_URL: pair.urls.query,
        DATABASE_READ_URL: readUrl,
        TOKEN_ISSUER,
        TOKEN_JWKS_URL: `${api.command.url}/.well-known/jwks.json`,
      });
      const to = new Date(Date.now() + 20 * 86_400_000).toISOString();
      const list = async (position?: string) => {
        const headers = { ...partner.headers, "X-SERVICE-Clinic-ID": sandbox.clinicId };
        const response = await fetch(`${queryApi.url}/sandbox/v1/appointments?limit=250&to=${to}`, {
          headers: { ...headers, ...(position !== undefined && { "X-SERVICE-Log-Position": position }) },
        });
        return { status: response.status, text: await response.text() };
      };
      try {
        const first = await createAppointmentAt();
        await eventually("the first appointment", async () => (await list(first.position)).text.includes(first.id));

        await pair.query("standby", "SELECT pg_wal_replay_pause()");
        const second = await createAppointmentAt();
        // On a busy machine, a request may not be counted in time, and is then refused.
        const oldText = await eventually("a read of old data", async () => {
          const { status, text } = await list();
          return status === 200 && text;
        });
        expect([oldText.includes(first.id), oldText.includes(second.id)]).to.deep.equal([true, false]);
        await eventually("a read that must reflect the write is refused", async () =>
          (await list(second.position)).text.includes("read_model_behind"),
        );
        // Checks of the readiness do not use up the rate limit.
        await eventually("reads of old data are refused", async () => !(await isReady(queryApi.url)));
        const readiness = await (await fetch(`${queryApi.url}/health/ready`)).json();
        expect(readiness).to.deep.equal({ ok: false, parts: { postgres: "the standby is behind the primary" } });
        expect((await list()).status).to.equal(503);

        await pair.query("standby", "SELECT pg_wal_replay_resume()");
        await eventually("reads continue", () => isReady(queryApi.url));
        await eventually("the second appointment", async () => (await list(second.position)).text.includes(second.id));
      } finally {
        await pair.query("standby", "SELECT pg_wal_replay_resume()");
        await queryApi.stop();
      }
    });

    it("command, query-api and all roles of the projection service continue by themselves, although the new primary lacks transactions", async () => {
      const idsBefore = [await createAppointment()];
      await expectAppointmentsArrived(idsBefore);
      await pair.waitForStandby();
      await pair.detachStandby();
      // The standby never receives the transactions of this appointment. Its row and delivery must be created again.
      const lostIds = [await createAppointment()];
      await expectAppointmentsArrived(lostIds);
      await pair.killPrimary();
      const idsDuringOutage = [await createAppointment(), await createAppointment()];
      await pair.promoteStandby();
      const idsAfter = [await createAppointment()];
      const ids = [...idsBefore, ...lostIds, ...idsDuringOutage, ...idsAfter];
      await expectAppointmentsArrived(ids);
      await eventually("the deliveries", () =>
        withClient(pair.urls.projection, async (client) => {
          const { rowCount } = await client.query("SELECT FROM webhooks.delivery WHERE status = 'delivered'");
          return rowCount === createdIds.length;
        }),
      );
      await eventually("all services are ready", async () => {
        const readiness = await Promise.all([api.queryUrl, api.projectionUrl].map(isReady));
        return readiness.every(Boolean);
      });
      await eventually("both services lock the read models on the new primary", () =>
        withClient(pair.urls.projection, async (client) => {
          const { rowCount } = await client.query(
            "SELECT FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND granted",
          );
          return rowCount === 2;
        }),
      );
    });
  });
});
