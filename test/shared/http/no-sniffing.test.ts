import type { ServerResponse } from "node:http";
import { expect } from "chai";
import { listen } from "../../../shared/http/listen.ts";
import { sendOneRequest, toRequest } from "../../support/raw-http.ts";

const GET_REQUEST = toRequest("GET / HTTP/1.1", []);

describe("X-Content-Type-Options", () => {
  const writers: [string, (response: ServerResponse) => void][] = [
    ["no headers", (response) => response.end("{}")],
    ["a reason phrase", (response) => response.writeHead(200, "Fine").end("{}")],
    ["headers by name", (response) => response.writeHead(200, { "X-Other": "1" }).end("{}")],
    ["raw headers", (response) => response.writeHead(200, ["X-Other", "1"]).end("{}")],
    [
      "raw headers that already contain X-Content-Type-Options",
      (response) => response.writeHead(200, "OK", ["x-content-type-options", "nosniff"]).end("{}"),
    ],
  ];
  for (const [caseName, write] of writers) {
    it(`a response written with ${caseName} has the header X-Content-Type-Options`, async () => {
      const server = await listen((_, response) => write(response), "127.0.0.1", 0);
      const { headers } = await sendOneRequest(server.url, GET_REQUEST);
      await server.close();
      expect(headers["x-content-type-options"]).to.equal("nosniff");
    });
  }

  it("adding X-Content-Type-Options keeps repeated raw headers", async () => {
    const rawHeaders = ["Set-Cookie", "a=1", "Set-Cookie", "b=2"];
    const server = await listen((_, response) => response.writeHead(200, rawHeaders).end(), "127.0.0.1", 0);
    const { headers } = await fetch(server.url);
    await server.close();
    expect(headers.getSetCookie()).to.deep.equal(["a=1", "b=2"]);
    expect(headers.get("X-Content-Type-Options")).to.equal("nosniff");
  });
});
