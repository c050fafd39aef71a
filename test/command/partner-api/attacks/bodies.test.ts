import { gzipSync } from "node:zlib";
import { expect } from "chai";
import { expectRefusal, requestText, sendOne } from "../../../support/raw-http.ts";
import { createAttacker, JSON_TYPE } from "./attacker.ts";

describe("partner API, attacked by bodies", () => {
  const attacker = createAttacker();
  const { appointment, own, key, send, create } = attacker;

  const deep = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;
  const invalidUtf8 = () =>
    Buffer.concat([
      Buffer.from(`${JSON.stringify(appointment()).slice(0, -1)},"notes":"`),
      Buffer.from([0xc3, 0x28]),
      Buffer.from('"}'),
    ]);
  const cutUtf8 = () => Buffer.concat([Buffer.from('"'), Buffer.from([0xe2, 0x82])]);
  const bodies: [string, () => string | Buffer, number, string][] = [
    ["100,000 brackets", () => deep(50_000), 413, "body_too_large"],
    ["60,000 brackets", () => deep(30_000), 422, "validation_failed"],
    ["brackets that do not close", () => "[".repeat(60_000), 400, "invalid_json"],
    ["objects in objects", () => `${'{"a":'.repeat(9_000)}1${"}".repeat(9_000)}`, 422, "validation_failed"],
    [
      "__proto__",
      () => `{"__proto__":{"admin":true},${JSON.stringify(appointment()).slice(1)}`,
      400,
      "invalid_json",
    ],
    [
      "__proto__, escaped",
      () => `{"\\u005f_proto__":{"admin":true},${JSON.stringify(appointment()).slice(1)}`,
      400,
      "invalid_json",
    ],
    [
      "constructor",
      () => JSON.stringify(appointment({ constructor: { prototype: { admin: true } } })),
      422,
      "validation_failed",
    ],
    [
      "prototype",
      () => JSON.stringify(appointment({ prototype: { admin: true } })),
      422,
      "validation_failed",
    ],
    [
      "a megabyte",
      () => JSON.stringify(appointment({ notes: "x".repeat(1_048_576) })),
      413,
      "body_too_large",
    ],
    ["an array", () => JSON.stringify([appointment()]), 422, "validation_failed"],
    ["a text", () => '"text"', 422, "validation_failed"],
    ["bytes that are no UTF-8", invalidUtf8, 400, "invalid_json"],
    ["UTF-8 that is cut off", cutUtf8, 400, "invalid_json"],
    ["UTF-16", () => Buffer.from(JSON.stringify(appointment()), "utf16le"), 400, "invalid_json"],
    ["NaN", () => `{"scheduledAt":NaN}`, 400, "invalid_json"],
    ["a comma too many", () => `${JSON.stringify(appointment()).slice(0, -1)},}`, 400, "invalid_json"],
    [
      "half a surrogate pair",
      () => JSON.stringify(appointment({ notes: "\ud83d" })),
      422,
      "validation_failed",
    ],
    [
      "a thousand unknown fields",
      () =>
        JSON.stringify(
          appointment(Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`f${i}`, i]))),
        ),
      422,
      "validation_failed",
    ],
  ];
  for (const [what, body, status, code] of bodies) {
    it(`${status} ${code}: ${what}`, async () => {
      expectRefusal(await create([...own(), key(), JSON_TYPE], body()), status, code);
    });
  }

  it("413: a megabyte in chunks, of no length that is told", async () => {
    const chunk = `${(4096).toString(16)}\r\n${"x".repeat(4096)}\r\n`;
    const head = requestText("POST /production/v1/appointments HTTP/1.1", [
      ...own(),
      key(),
      JSON_TYPE,
      "Transfer-Encoding: chunked",
    ]);
    const answer = await sendOne(attacker.command.url, head, chunk.repeat(256), "0\r\n\r\n");
    expectRefusal(answer, 413, "body_too_large");
  });

  it("415: what is compressed, which might be of any size", async () => {
    const bomb = gzipSync(JSON.stringify(appointment({ notes: "x".repeat(10_000_000) })));
    const answer = await create([...own(), key(), JSON_TYPE, "Content-Encoding: gzip"], bomb);
    expectRefusal(answer, 415, "unsupported_media_type");
  });

  for (const type of [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/jsonp",
    "json",
    ";;;",
    "application/json, text/plain",
  ]) {
    it(`415 unsupported_media_type: ${type}`, async () => {
      const answer = await create([...own(), key(), `Content-Type: ${type}`]);
      expectRefusal(answer, 415, "unsupported_media_type");
    });
  }

  describe("declared in a charset", () => {
    /** Every operation that takes a body, with one that it accepts or judges. */
    const operations: [start: string, headers: () => string[], body: () => unknown][] = [
      ["POST /production/v1/appointments", () => [...own(), key()], appointment],
      ["POST /production/v1/webhook-endpoints", own, () => ({ url: "https://127.0.0.1/", events: [] })],
      ["POST /production/v1/oauth/token", () => [], () => ({ grant_type: "client_credentials" })],
    ];
    const post = async (parameters: string) => {
      const type = `Content-Type: application/json${parameters}`;
      return Promise.all(
        operations.map(async ([start, headers, body]) => {
          return [start, await send(start, [...headers(), type], JSON.stringify(body()))] as const;
        }),
      );
    };

    for (const parameters of [
      ...["; charset=utf-16", "; charset=iso-8859-1", ";charset=US-ASCII", '; charset="utf-16le"'],
      ...["; charset=utf-8; charset=utf-16", "; charset=utf-16; charset=utf-8", "; Charset=UTF-16"],
      ...["; charset=utf-16;", "; charset=utf-16; x", "; charset=", "; charset", "; charset=utf-8x"],
    ]) {
      it(`415 unsupported_media_type, at every operation that takes a body: application/json${parameters}`, async () => {
        for (const [start, answer] of await post(parameters)) {
          expectRefusal(answer, 415, "unsupported_media_type");
          expect(answer.headers["ratelimit-remaining"], start).to.match(/^\d+$/);
        }
      });
    }

    for (const parameters of [
      ...["; charset=utf-8", "; charset=UTF-8", '; charset="UTF-8"', "; charset=utf8", " ; charset=utf-8 ;"],
      ...["; profile=x", '; profile="; charset=utf-16"', "; profile=x; charset=utf-8; q", ";"],
    ]) {
      it(`not 415, at every operation that takes a body: application/json${parameters}`, async () => {
        for (const [start, { status }] of await post(parameters)) expect(status, start).to.not.equal(415);
      });
    }
  });

  it("415: no body at all", async () => {
    expectRefusal(await create([...own(), key(), JSON_TYPE], ""), 415, "unsupported_media_type");
  });

  it("201: JSON by another name, and with a charset", async () => {
    for (const type of ["application/vnd.api+json", "application/json; charset=utf-8", "APPLICATION/JSON"]) {
      expect((await create([...own(), key(), `Content-Type: ${type}`])).status).to.equal(201);
    }
  });

  it("401: none of it moves the token operation to another answer than it is due", async () => {
    const tokens: [string | Buffer, number, string][] = [
      [deep(30_000), 401, "invalid_request"],
      ['{"__proto__":{}}', 400, "invalid_json"],
      [JSON.stringify({ client_id: { $ne: null }, client_secret: { $ne: null } }), 401, "invalid_request"],
      [Buffer.from([0x22, 0xff, 0x22]), 400, "invalid_json"],
      [JSON.stringify({ client_secret: "x".repeat(1_048_576) }), 413, "body_too_large"],
    ];
    for (const [body, status, code] of tokens) {
      const answer = await send("POST /production/v1/oauth/token", [JSON_TYPE], body);
      expectRefusal(answer, status, code);
      expect(answer.headers["ratelimit-remaining"]).to.match(/^\d+$/);
    }
  });
});
