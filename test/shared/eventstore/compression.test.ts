import http2 from "node:http2";
import { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { listenOnLoopback } from "../../support/loopback.ts";

describe("compression of the event log's responses", () => {
  let url: string;
  const requests: http2.IncomingHttpHeaders[] = [];

  before(async () => {
    const server = http2.createServer();
    server.on("stream", (stream, headers) => {
      requests.push(headers);
      stream.respond({ "content-type": "application/grpc", "grpc-status": 7 }, { endStream: true });
    });
    url = `esdb://${(await listenOnLoopback(server)).host}?tls=false`;
  });

  /** Returns the headers of one request of the client. */
  async function requestOnce(client: EventStoreDBClient): Promise<http2.IncomingHttpHeaders> {
    requests.length = 0;
    const error = await client
      .readAll({ maxCount: 1 })
      [Symbol.asyncIterator]()
      .next()
      .catch((error) => error);
    expect(error).to.have.property("code", 7);
    await client.dispose();
    expect(requests).to.have.length(1);
    return requests[0] as http2.IncomingHttpHeaders;
  }

  it("a client of the service accepts only uncompressed messages", async () => {
    expect(await requestOnce(connectEventStore(url, "test"))).not.to.have.property("grpc-accept-encoding");
  });

  it("other clients in the process keep accepting compressed messages", async () => {
    const headers = await requestOnce(EventStoreDBClient.connectionString(url));
    expect(headers).to.have.property("grpc-accept-encoding").that.includes("gzip");
  });
});
