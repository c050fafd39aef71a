import { randomUUID } from "node:crypto";
import { gzipSync } from "node:zlib";
import { expect } from "chai";
import { expectRefusal, sendOneRequest, toRequest } from "../../../support/raw-http.ts";
import { createAttacker, JSON_TYPE } from "./attacker.ts";

describe("attacks on the partner API with bodies", () => {
  const attacker = createAttacker();
  const { createBody, getOwnHeaders, createKeyHeader, send, postAppointment } = attacker;

  const nestArrays = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;
  const createInvalidUtf8 = () => Buffer.from(JSON.stringify(createBody({ notes: "\u00c3(" })), "latin1");
  const bodies: [string, () => string | Buffer, number, string][] = [
    ["100,000 brackets", () => nestArrays(50_000), 413, "body_too_large"],
    ["60,000 brackets", () => nestArrays(30_000), 413, "body_too_large"],
    ["1,800 brackets", () => nestArrays(900), 422, "validation_failed"],
    ["unclosed brackets", () => "[".repeat(60_000), 400, "invalid_json"],
    ["deeply nested objects", () => `${'{"a":'.repeat(9_000)}1${"}".repeat(9_000)}`, 413, "body_too_large"],
    [
      "a field __proto__",
      () => `{"__proto__":{"admin":true},${JSON.stringify(createBody()).slice(1)}`,
      400,
      "invalid_json",
    ],
    [
      "an escaped field __proto__",
      () => `{"\\u005f_proto__":{"admin":true},${JSON.stringify(createBody()).slice(1)}`,
      400,
      "invalid_json",
    ],
    [
      "a field constructor",
      () => JSON.stringify(createBody({ constructor: { prototype: { admin: true } } })),
      422,
      "validation_failed",
    ],
    ["a field prototype", () => JSON.stringify(createBody({ prototype: { admin: true } })), 422, "validation_failed"],
    [
      "a body of one megabyte",
      () => JSON.stringify(createBody({ notes: "x".repeat(1_048_576) })),
      413,
      "body_too_large",
    ],
    ["an array as body", () => JSON.stringify([createBody()]), 422, "validation_failed"],
    ["a string as body", () => '"text"', 422, "validation_failed"],
    ["invalid UTF-8", createInvalidUtf8, 400, "invalid_json"],
    ["truncated UTF-8", () => Buffer.from([0x22, 0xe2, 0x82]), 400, "invalid_json"],
    ["UTF-16", () => Buffer.from(JSON.stringify(createBody()), "utf16le"), 400, "invalid_json"],
    ["NaN", () => `{"scheduledAt":NaN}`, 400, "invalid_json"],
    ["a number that JavaScript cannot keep", () => '{"a":"1e400","b":[1.0,-0.5e1,1e400]}', 400, "invalid_json"],
    ["a trailing comma", () => `${JSON.stringify(createBody()).slice(0, -1)},}`, 400, "invalid_json"],
    ["half a surrogate pair", () => JSON.stringify(createBody({ notes: "\ud83d" })), 422, "validation_failed"],
    [
      "900 unknown fields",
      () => JSON.stringify(createBody(Object.fromEntries(Array.from({ length: 900 }, (_, i) => [`f${i}`, i])))),
      422,
      "validation_failed",
    ],
    ["999 array elements", () => JSON.stringify(Array(999).fill(1)), 422, "validation_failed"],
    ["1,000 array elements", () => JSON.stringify(Array(1_000).fill(1)), 413, "body_too_large"],
  ];
  for (const [caseName, buildBody, status, code] of bodies) {
    it(`POST /appointments with ${caseName} returns ${status} ${code}`, async () => {
      const response = await postAppointment([...getOwnHeaders(), createKeyHeader(), JSON_TYPE], buildBody());
      expectRefusal(response, status, code);
    });
  }

  it("the response to a body that is not JSON says where the error is, and contains nothing of the body", async () => {
    const cases: [string | Buffer, string][] = [
      ['{\n  "notes": secret\n}', "is not valid JSON at line 2, column 12"],
      [createInvalidUtf8(), "must be encoded in UTF-8"],
      ['{"__proto__":{}}', "must not contain a field __proto__"],
    ];
    for (const [body, message] of cases) {
      const response = await postAppointment([...getOwnHeaders(), createKeyHeader(), JSON_TYPE], body);
      expectRefusal(response, 400, "invalid_json");
      expect(response.body.details).to.deep.equal([{ path: "body", message }]);
    }
  });

  it("a chunked body of one megabyte without Content-Length gets 413", async () => {
    const chunk = `${(4096).toString(16)}\r\n${"x".repeat(4096)}\r\n`;
    const requestHead = toRequest("POST /production/v1/appointments HTTP/1.1", [
      ...getOwnHeaders(),
      createKeyHeader(),
      JSON_TYPE,
      "Transfer-Encoding: chunked",
    ]);
    const response = await sendOneRequest(attacker.command.url, requestHead, chunk.repeat(256), "0\r\n\r\n");
    expectRefusal(response, 413, "body_too_large");
  });

  const enableLine = `POST /production/v1/webhook-endpoints/${randomUUID()}/enable HTTP/1.1`;

  it("an operation with an optional body accepts an empty chunked body, and reads any other chunked body", async () => {
    const cases: [body: string[], status: number, code: string, ...types: string[]][] = [
      [["0\r\n\r\n"], 404, "webhook_endpoint_not_found"],
      [["", "0\r\n\r\n"], 404, "webhook_endpoint_not_found"],
      [["0\r\n\r\n"], 404, "webhook_endpoint_not_found", JSON_TYPE],
      [["2\r\n{}\r\n0\r\n\r\n"], 415, "unsupported_media_type"],
      [["1\r\n{\r\n", "1\r\n}\r\n0\r\n\r\n"], 400, "validation_failed", JSON_TYPE],
      [["1\r\n{\r\n0\r\n\r\n"], 400, "invalid_json", JSON_TYPE],
    ];
    for (const [[start = "", ...parts], status, code, ...types] of cases) {
      const head = toRequest(enableLine, [...getOwnHeaders(), "Transfer-Encoding: chunked", ...types]);
      const response = await sendOneRequest(attacker.command.url, Buffer.concat([head, Buffer.from(start)]), ...parts);
      expectRefusal(response, status, code);
    }
  });

  const unsupportedBodies: [string, string[], (string | Buffer)?][] = [
    [
      "that is compressed",
      [JSON_TYPE, "Content-Encoding: gzip"],
      gzipSync(JSON.stringify({ notes: "x".repeat(10_000_000) })),
    ],
    ["that is empty", [JSON_TYPE], ""],
    ...[
      "text/plain",
      "application/x-www-form-urlencoded",
      "multipart/form-data; boundary=x",
      "application/jsonp",
      "json",
      ";;;",
      "application/json, text/plain",
    ].map((type): [string, string[]] => [`of Content-Type ${type}`, [`Content-Type: ${type}`]]),
  ];
  for (const [caseName, headers, body] of unsupportedBodies) {
    it(`a body ${caseName} gets 415 unsupported_media_type`, async () => {
      const response = await postAppointment([...getOwnHeaders(), createKeyHeader(), ...headers], body);
      expectRefusal(response, 415, "unsupported_media_type");
    });
  }

  describe("declared in a charset", () => {
    /**
     * Start line, headers and well-formed body of each operation with a body. Only the content of the body can be
     * refused.
     */
    const operations: [start: string, headers: () => string[], body: () => unknown][] = [
      ["POST /production/v1/appointments", () => [...getOwnHeaders(), createKeyHeader()], createBody],
      ["POST /production/v1/webhook-endpoints", getOwnHeaders, () => ({ url: "https://127.0.0.1/", events: [] })],
      ["POST /production/v1/oauth/token", () => [], () => ({ grant_type: "client_credentials" })],
    ];
    const postToAllOperations = async (parameters: string) => {
      const type = `Content-Type: application/json${parameters}`;
      return Promise.all(
        operations.map(async ([methodAndTarget, getHeaders, buildBody]) => {
          return [
            methodAndTarget,
            await send(methodAndTarget, [...getHeaders(), type], JSON.stringify(buildBody())),
          ] as const;
        }),
      );
    };

    for (const parameters of [
      ...["; charset=utf-16", "; charset=iso-8859-1", ";charset=US-ASCII", '; charset="utf-16le"'],
      ...["; charset=utf-8; charset=utf-16", "; charset=utf-16; charset=utf-8", "; Charset=UTF-16"],
      ...["; charset=utf-16;", "; charset=utf-16; x", "; charset=", "; charset", "; charset=utf-8x"],
    ]) {
      it(`every operation with a body returns 415 for Content-Type application/json${parameters}`, async () => {
        for (const [methodAndTarget, response] of await postToAllOperations(parameters)) {
          expectRefusal(response, 415, "unsupported_media_type");
          expect(response.headers["ratelimit-remaining"], methodAndTarget).to.match(/^\d+$/);
        }
      });
    }

    for (const parameters of [
      ...["; charset=utf-8", "; charset=UTF-8", '; charset="UTF-8"', "; charset=utf8", " ; charset=utf-8 ;"],
      ...["; profile=x", '; profile="; charset=utf-16"', "; profile=x; charset=utf-8; q", ";"],
    ]) {
      it(`every operation with a body accepts Content-Type application/json${parameters}`, async () => {
        for (const [methodAndTarget, { status }] of await postToAllOperations(parameters))
          expect(status, methodAndTarget).to.not.equal(415);
      });
    }
  });

  it("POST /appointments accepts other JSON media types, and a charset", async () => {
    for (const type of ["application/vnd.api+json", "application/json; charset=utf-8", "APPLICATION/JSON"]) {
      const response = await postAppointment([...getOwnHeaders(), createKeyHeader(), `Content-Type: ${type}`]);
      expect(response.status, type).to.equal(201);
    }
  });

  it("the token operation returns 401, 400 or 413 for malicious bodies", async () => {
    const tokenBodies: [string | Buffer, number, string][] = [
      [nestArrays(30_000), 413, "body_too_large"],
      [nestArrays(900), 401, "invalid_request"],
      ['{"__proto__":{}}', 400, "invalid_json"],
      [JSON.stringify({ client_id: { $ne: null }, client_secret: { $ne: null } }), 401, "invalid_request"],
      [Buffer.from([0x22, 0xff, 0x22]), 400, "invalid_json"],
      [JSON.stringify({ client_secret: "x".repeat(1_048_576) }), 413, "body_too_large"],
    ];
    for (const [body, status, code] of tokenBodies) {
      const response = await send("POST /production/v1/oauth/token", [JSON_TYPE], body);
      expectRefusal(response, status, code);
      expect(response.headers["ratelimit-remaining"]).to.match(/^\d+$/);
    }
  });
});
