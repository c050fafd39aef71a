#!/usr/bin/env node
// Stands in for a node of EventStoreDB on a machine: accepts TLS with the node's certificate, passes gRPC on to an
// embedded log outside of the machines, and accepts the few other requests of the guide.
const { readFileSync } = require("node:fs");
const { createServer } = require("node:http");
const { connect } = require("node:net");
const tls = require("node:tls");

const LOG = { host: "198.51.100.1", port: 2113 };
const statuses = { "/users/": 201, "/health/live": 204, "/metrics": 200 };

const web = createServer(({ url }, response) => {
  response.statusCode = statuses[url] ?? 404;
  response.end();
});

const cert = readFileSync(process.env.EVENTSTORE_CERTIFICATE_FILE);
const key = readFileSync(process.env.EVENTSTORE_CERTIFICATE_PRIVATE_KEY_FILE);
const server = tls.createServer({ cert, key, ALPNProtocols: ["h2", "http/1.1"] }, (socket) => {
  if (socket.alpnProtocol !== "h2") return web.emit("connection", socket);
  const upstream = connect(LOG);
  socket.pipe(upstream).pipe(socket);
  for (const side of [socket, upstream]) {
    side.on("error", () => {});
    side.on("close", () => {
      socket.destroy();
      upstream.destroy();
    });
  }
});
server.listen(2113, process.env.EVENTSTORE_NODE_HOST_ADVERTISE_AS);
