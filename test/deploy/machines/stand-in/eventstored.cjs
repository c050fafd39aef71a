#!/usr/bin/env node
// Stands in for a node of EventStoreDB on a machine: accepts TLS with the node's certificate, passes gRPC on to an
// embedded log outside of the machines, and accepts the few other requests of the guide.
const { readFileSync } = require("node:fs");
const { connect, constants, createSecureServer } = require("node:http2");

const LOG = "http://198.51.100.1:2113";
const statuses = { "/users/": 201, "/health/live": 204, "/metrics": 200 };
const upstreams = new WeakMap();

/** Passes a call on, with the trailers of its response. */
function forward(stream, headers) {
  const call = upstreams.get(stream.session).request(headers);
  let trailers = {};
  call.on("response", (response, flags) => {
    const endStream = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0;
    if (!stream.closed) stream.respond(response, endStream ? { endStream } : { waitForTrailers: true });
  });
  call.on("trailers", (received) => {
    trailers = received;
  });
  stream.on("wantTrailers", () => stream.sendTrailers(trailers));
  stream.pipe(call).pipe(stream);
  for (const [side, other] of [
    [stream, call],
    [call, stream],
  ]) {
    side.on("error", () => {});
    side.on("close", () => {
      if (!other.closed && side.rstCode !== constants.NGHTTP2_NO_ERROR) other.close(side.rstCode);
    });
  }
}

const server = createSecureServer({
  cert: readFileSync(process.env.EVENTSTORE_CERTIFICATE_FILE),
  key: readFileSync(process.env.EVENTSTORE_CERTIFICATE_PRIVATE_KEY_FILE),
});
server.on("session", (session) => {
  const upstream = connect(LOG);
  upstreams.set(session, upstream);
  upstream.on("error", () => session.destroy());
  upstream.on("close", () => session.destroy());
  session.on("error", () => {});
  session.on("close", () => upstream.destroy());
});
server.on("stream", (stream, headers) => {
  if (String(headers["content-type"]).startsWith("application/grpc")) forward(stream, headers);
  else stream.respond({ ":status": statuses[headers[":path"]] ?? 404 }, { endStream: true });
});
server.listen(2113, process.env.EVENTSTORE_NODE_HOST_ADVERTISE_AS);
