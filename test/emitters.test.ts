import fs from "node:fs";
import { expect } from "chai";

const FOLDERS = ["bin", "command", "deploy/container", "deploy/local", "projection", "query-api", "shared"];

/**
 * Patterns of code that creates or receives an EventEmitter: calls of Node and of client libraries, classes and events.
 */
const SITES = [
  /\bcreate(?:Server|SecureServer|Socket|Connection|ReadStream|WriteStream|Interface)\(/,
  /\b(?:net|tls|http2)\.connect\(|\bhttps?\)?\.(?:request|get)\(|\b(?:spawn|fork|execFile)\b(?!Sync)/,
  /\bnew (?:pg\.(?:Client|Pool)|DatabaseClient|Worker|Server|Koa|EventEmitter|\w*Socket|\w*Agent|OTLP\w+)\b/,
  /\b(?:new|extends) (?:PassThrough|Readable|Writable|Duplex|Transform)\b|\bextends (?:pg\.Client|EventEmitter|BaseAgent)\b/,
  /\bEventStoreDBClient\.connectionString\(|\.(?:subscribeToAll|subscribeToStream|readAll|readStream)\(/,
  /\bgrpc\.(?!getChannel)\w+\(|\bawait connect\(|\.(?:consume|subscribe)\(/,
  /\.(?:on|once|prependListener)\("(?:clientError|connect|connection|pipe|request|response|socket|stream|upgrade)"/,
].map(({ source }) => source);

/** Imports of modules that create emitters. HARMLESS_EXPORTS matches the imported names that create none. */
const EMITTER_MODULES =
  /^import (?!type )([^;]+?) from "node:(?:https?|http2|net|tls|dgram|child_process|worker_threads|cluster|readline)"/gm;
const HARMLESS_EXPORTS = /\btype \w+|\b(?:isIP|isIPv4|isMainThread|parentPort|workerData|\w+Sync)\b/g;

/** Emitters, and the code in the same file that listens for their errors. See `findSites` for the keys. */
const LISTENERS: Record<string, string> = {
  "command/cli/log-copy/copied-log.ts grpc.read(": 'responses.on("error"',
  "deploy/container/resolver.mjs createSocket( 2": 'socket.on("error"',
  "deploy/local/bootstrap.mjs spawn": 'child.on("error"',
  "deploy/local/gateway/gateway-server.ts http.request(": 'upstreamRequest.on("error"',
  'deploy/local/gateway/gateway-server.ts .on("response"': "pipeline(upstreamResponse",
  "deploy/local/setup/install.mjs spawn": 'child.on("error"',
  "deploy/local/supervisor/component.ts spawn": 'child.on("error"',
  "projection/engine/read-log.ts new Worker": 'worker.on("error"',
  "projection/status/server-certificates.ts net.connect(": '.on("error"',
  "projection/status/server-certificates.ts tls.connect(": '.on("error"',
  "projection/webhooks/send/egress-proxy.ts http).request(": 'request.on("error"',
  'projection/webhooks/send/egress-proxy.ts .once("connect"': 'socket.on("error"',
  'projection/webhooks/send/send.ts .once("response"': "finished(response",
  "shared/eventstore/append.ts grpc.append(": 'call.on("error"',
  "shared/eventstore/batch-append.ts grpc.batchAppend(": 'call.on("error"',
  "shared/http/app.ts new Koa": 'app.on("error"',
  "shared/http/listen.ts createServer(": 'server.on("connection", (socket) => socket.on("error"',
  "shared/postgres/client.ts extends pg.Client": 'this.on("error"',
  "shared/postgres/find-server.ts new pg.Client": 'client.on("error"',
  "shared/postgres/pool.ts new pg.Pool": 'pool.on("error"',
};

/** Reasons why a file needs no listener for errors, with the emitters to which each reason applies. */
const EXEMPTIONS: Record<string, string[]> = {
  "An iterator or a pipeline listens from the start, and its listener stays after the end.": [
    "command/audit/cli/output-file.ts createWriteStream(",
    "command/audit/cli/verify-file.ts createReadStream(",
    "command/audit/index/read-rows.ts .readAll(",
    "command/cli/import/import-lines.ts createReadStream(",
    "command/cli/import/import-lines.ts createReadStream( 2",
    "command/operations/personal-data/apply-retention.ts .readAll(",
    "projection/adoption/adopt-log.ts .readAll(",
    "projection/status/lag.ts .readAll(",
    "projection/webhooks/match/dispatcher.ts .subscribe(",
    "shared/eventstore/connect.ts .readAll(",
    "shared/eventstore/log.ts .readStream(",
    "shared/eventstore/read-log.ts .readAll(",
    "shared/eventstore/read-log.ts .readAll( 2",
    "shared/eventstore/read-log.ts .readStream(",
    "shared/eventstore/subscription.ts .subscribeToAll(",
  ],
  "The promise that waits for the emitter listens, and the emitter ends in the same turn of the event loop.": [
    "deploy/local/servers/nats.ts net.connect(",
    "deploy/local/servers/servers.ts net.connect(",
    "deploy/local/setup/ports.ts createServer(",
  ],
  "The library listens, and reports errors to its callers.": [
    "command/audit/http/stream-lines.ts new PassThrough",
    "deploy/local/eventstore/server.ts new Server",
    "deploy/local/servers/postgres-home.ts execFile",
    "deploy/local/servers/postgres.ts execFile",
    "deploy/local/setup/system-package.ts execFile",
    "projection/nats/nats-session.ts await connect(",
    "shared/eventstore/connect.ts EventStoreDBClient.connectionString(",
    'shared/eventstore/read-log.ts .once("pipe"',
    "shared/tracing/otlp-spans.ts new OTLPTraceExporter",
  ],
  "The emitter is of a class that listens to itself.": [
    "shared/postgres/client.ts new DatabaseClient",
    'shared/postgres/pool.ts .on("connect"',
    "shared/postgres/pool.ts new DatabaseClient",
  ],
  "The socket belongs to a request, whose listener is in send.ts or in the same file.": [
    "projection/webhooks/send/connections.ts createConnection(",
    "projection/webhooks/send/connections.ts createConnection( 2",
    "projection/webhooks/send/connections.ts createConnection( 3",
    "projection/webhooks/send/connections.ts http).request(",
    'projection/webhooks/send/egress-proxy.ts .once("socket"',
    'projection/webhooks/send/send.ts .once("socket"',
    'projection/webhooks/send/send.ts .once("upgrade"',
  ],
  "The socket has the listener of the event `connection`.": [
    'shared/http/listen.ts .on("clientError"',
    'shared/http/listen.ts .on("connect"',
    'shared/http/listen.ts .on("connection"',
    'shared/http/listen.ts .prependListener("request"',
  ],
  "No listener takes a socket over, so Node keeps its own listener.": ["deploy/container/receiver.js createServer("],
  "It emits no errors, or passes no emitter.": [
    'deploy/container/resolver.mjs .once("connect"',
    "deploy/local/demo/receiver.ts new EventEmitter",
    "projection/start.ts await connect(",
    "projection/webhooks/send/connections.ts extends BaseAgent",
    "projection/webhooks/send/connections.ts new PoolingAgent",
    "shared/postgres/client.ts new pg.Client",
  ],
  "Sending reports errors to a callback. Another error means that the start failed.": [
    "deploy/container/resolver.mjs createSocket(",
  ],
};

/** Returns a file's emitters, each as the file name and the matched code. A repeated match gets a number. */
function findSites(file: string): string[] {
  const counts = new Map<string, number>();
  const code = fs.readFileSync(file, "utf8").replace(/^import [^;]+;$|^\s*(?:\/?\*|\/\/).*$/gm, "");
  return Array.from(code.matchAll(new RegExp(SITES.join("|"), "g")), ([match]) => {
    const count = (counts.get(match) ?? 0) + 1;
    counts.set(match, count);
    return `${file} ${match}${count > 1 ? ` ${count}` : ""}`;
  });
}

describe("errors of emitters", () => {
  const files = FOLDERS.flatMap((folder) =>
    fs.readdirSync(folder, { recursive: true, encoding: "utf8" }).map((name) => `${folder}/${name}`),
  ).filter((file) => /(?<!\.d)\.m?[jt]s$/.test(file) && !file.includes("/assets/"));

  it("each emitter that the product creates or receives has a listener for errors, or a reason to have none", () => {
    expect(files.flatMap(findSites)).to.have.members([...Object.keys(LISTENERS), ...Object.values(EXEMPTIONS).flat()]);
    for (const [site, listener] of Object.entries(LISTENERS))
      expect(fs.readFileSync(site.split(" ")[0] as string, "utf8"), site).to.include(listener);
  });

  it("only files with known emitters import modules that create emitters", () => {
    const unknownFiles = files.filter((file) => {
      const imports = [...fs.readFileSync(file, "utf8").matchAll(EMITTER_MODULES)].map(([, names = ""]) => names);
      return imports.some((names) => /\w/.test(names.replace(HARMLESS_EXPORTS, ""))) && findSites(file).length === 0;
    });
    expect(unknownFiles).to.deep.equal([]);
  });
});
