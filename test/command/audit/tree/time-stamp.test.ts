import { execFile, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import http from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { requestTimeStamp, TimeStampError } from "../../../../command/audit/tree/time-stamp.ts";
import { createClinic } from "../../../support/partner.ts";
import { makeTestRoot } from "../../../support/stack.ts";
import { startTreeWorld } from "./tree-world.ts";

/** Returns the response of a time-stamp server. */
type Respond = (query: Buffer) => Promise<{ status: number; body: Buffer }>;

/** A time-stamp server on loopback, which creates time stamps with `openssl ts`. */
interface TimeStampServer {
  url: string;
  folder: string;
  /** File with the certificate of the server. */
  certificateFile: string;
  createTimeStamp: Respond;
  /** Replaces the response. */
  respond: Respond;
  close(): void;
}

const runOpenssl = (...args: string[]) => promisify(execFile)("openssl", args);

/** Creates a time-stamp server with a new certificate. The server accepts only SHA-256 digests. */
async function startTimeStampServer(): Promise<TimeStampServer> {
  const folder = makeTestRoot();
  const toPath = (name: string) => path.join(folder, name);
  const [keyFile, certificateFile, configFile] = [toPath("key.pem"), toPath("cert.pem"), toPath("tsa.cnf")];
  await runOpenssl(
    ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"],
    ...["-subj", "/CN=Test time stamps", "-addext", "extendedKeyUsage=critical,timeStamping"],
    ...["-keyout", keyFile, "-out", certificateFile],
  );
  const settings = {
    serial: toPath("serial"),
    signer_cert: certificateFile,
    certs: certificateFile,
    signer_key: keyFile,
    signer_digest: "sha256",
    default_policy: "1.2.3.4.1",
    digests: "sha256",
    ess_cert_id_alg: "sha256",
    accuracy: "secs:1, millisecs:500",
    ordering: "yes",
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`);
  fs.writeFileSync(configFile, ["[tsa]", "default_tsa = server", "[server]", ...lines, ""].join("\n"));
  const createTimeStamp: Respond = async (query) => {
    const [queryFile, replyFile] = [toPath(`${randomUUID()}.tsq`), toPath(`${randomUUID()}.tsr`)];
    fs.writeFileSync(queryFile, query);
    await runOpenssl("ts", "-reply", "-config", configFile, "-queryfile", queryFile, "-out", replyFile);
    return { status: 200, body: fs.readFileSync(replyFile) };
  };
  const httpServer = http.createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const { status, body } = await server.respond(Buffer.concat(chunks));
    response.writeHead(status, { "Content-Type": "application/timestamp-reply" }).end(body);
  });
  await new Promise<void>((resolve) => httpServer.listen(0, "127.0.0.1", resolve));
  const { port } = httpServer.address() as AddressInfo;
  const server: TimeStampServer = {
    url: `http://127.0.0.1:${port}/`,
    folder,
    certificateFile,
    createTimeStamp,
    respond: createTimeStamp,
    close: () => httpServer.close(),
  };
  return server;
}

describe("time stamps of tree heads", () => {
  let server: TimeStampServer;

  before(async function () {
    // OpenSSL is not a requirement of the project, so these tests are skipped, and reported as skipped, without it.
    if (spawnSync("openssl", ["version"]).status !== 0) this.skip();
    server = await startTimeStampServer();
  });
  after(() => server?.close());
  afterEach(() => {
    if (server) server.respond = server.createTimeStamp;
  });

  const getProblem = async (content: string) => {
    try {
      await requestTimeStamp(server.url, content);
      return undefined;
    } catch (error) {
      expect(error).to.be.instanceOf(TimeStampError);
      return (error as Error).message;
    }
  };
  const verify = (file: string, timeStampFile: string) => {
    const args = ["ts", "-verify", "-data", file, "-in", timeStampFile, "-CAfile", server.certificateFile];
    return spawnSync("openssl", args).status;
  };

  it("the command `tree-head` writes a time stamp that OpenSSL verifies for exactly this file", async () => {
    const world = await startTreeWorld();
    try {
      await createClinic(world.log);
      const file = world.nameFile();
      const args = ["tree-head", "--out", file, "--timestamp-url", server.url];
      const { code, errorLines } = await world.run(args);
      expect(code, errorLines.join()).to.equal(0);
      expect(verify(file, `${file}.tsr`)).to.equal(0);
      expect(verify(world.writeFile(`${fs.readFileSync(file, "utf8")} `), `${file}.tsr`)).to.equal(1);

      server.respond = async () => ({ status: 503, body: Buffer.alloc(0) });
      const otherFile = world.nameFile();
      const failedRun = await world.run(["tree-head", "--out", otherFile, "--timestamp-url", server.url]);
      expect([failedRun.code, failedRun.errorLines]).to.deep.equal([
        4,
        [
          `audit: ${otherFile} has no time stamp: the server returned status 503. Check --timestamp-url and try again with another file.`,
        ],
      ]);
      expect([fs.existsSync(otherFile), fs.existsSync(`${otherFile}.tsr`)]).to.deep.equal([true, false]);
      const withoutFile = await world.run(["tree-head", "--timestamp-url", server.url]);
      const withoutUrl = await world.run(["tree-head", "--out", world.nameFile(), "--timestamp-url", "ftp://host"]);
      expect([withoutFile.errorLines, withoutUrl.errorLines]).to.deep.equal([
        ["audit: --timestamp-url requires --out"],
        ["audit: --timestamp-url must be a URL like https://host/path"],
      ]);
    } finally {
      await world.stop();
    }
  });

  it("a time stamp for another file, or for another request for the same file, is refused", async () => {
    let firstQuery: Buffer | undefined;
    server.respond = (query) => {
      firstQuery ??= query;
      return server.createTimeStamp(firstQuery);
    };
    expect(await getProblem("first")).to.equal(undefined);
    expect(await getProblem("second")).to.equal("the time stamp is for another request");
    expect(await getProblem("first")).to.equal("the time stamp is for another request");
  });

  it("a refusal of the server is reported with its status", async () => {
    // The server accepts only SHA-256, so it refuses a request whose object identifier names another algorithm.
    server.respond = (query) => {
      const otherQuery = Buffer.from(query);
      otherQuery[otherQuery.indexOf(Buffer.from("03040201", "hex")) + 3] = 2;
      return server.createTimeStamp(otherQuery);
    };
    expect(await getProblem("content")).to.equal("the server refused the request with PKIStatus 2");
  });

  it("a malformed or truncated response is reported, and so is a server that does not answer", async () => {
    const bodies = ["", "text", "30", "3003020100", "30800000", "3085ffffffffff"].map((hex) =>
      hex === "text" ? Buffer.from(hex) : Buffer.from(hex, "hex"),
    );
    for (const body of bodies) {
      server.respond = async () => ({ status: 200, body });
      expect(await getProblem("content"), body.toString("hex")).to.equal("the response is not a time stamp");
    }
    server.respond = async (query) => {
      const { body } = await server.createTimeStamp(query);
      return { status: 200, body: body.subarray(0, -1) };
    };
    expect(await getProblem("content")).to.equal("the response is not a time stamp");
    const closedServer = await startTimeStampServer();
    closedServer.close();
    const error = await requestTimeStamp(closedServer.url, "content").catch((reason: unknown) => reason);
    expect(error).to.be.instanceOf(TimeStampError);
    expect((error as Error).message).to.contain("ECONNREFUSED");
  });
});
