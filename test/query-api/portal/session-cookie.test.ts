import { expect } from "chai";
import fc from "fast-check";
import { extractAccessToken } from "../../../query-api/portal/session.ts";

const name = "sb-test-auth-token";
const createSessionText = (token: string) => JSON.stringify({ access_token: token, user: { name: "Ayşe 🐕" } });
const encodeSession = (token: string) => `base64-${Buffer.from(createSessionText(token)).toString("base64url")}`;
const readToken = (header: string | undefined) => extractAccessToken(header, name);

/** Splits a value into cookies with at most `size` characters each. */
function splitIntoCookies(value: string, size: number): string[] {
  const count = Math.ceil(value.length / size);
  return Array.from(
    { length: count },
    (_, index) => `${name}.${index}=${value.slice(index * size, (index + 1) * size)}`,
  );
}

describe("extractAccessToken", () => {
  it("the session cookie parser reads base64url, raw JSON, percent-encoded and quoted values", () => {
    const rawText = encodeURIComponent(createSessionText("raw"));
    expect(readToken(`a=b; ${name}=${encodeSession("one")}; c=d`)).to.equal("one");
    expect(readToken(`${name}=${rawText}`)).to.equal("raw");
    expect(readToken(`${name}={"access_token":"bare"}`)).to.equal("bare");
    expect(readToken(`${name}="${encodeSession("quoted")}"`)).to.equal("quoted");
  });

  it("the session cookie parser joins chunks in any order", () => {
    const chunks = splitIntoCookies(encodeSession("joined"), 20);
    expect(chunks.length).to.be.within(2, 10);
    expect(readToken(chunks.reverse().join("; "))).to.equal("joined");
  });

  it("the session cookie parser joins chunks that were percent-encoded one by one", () => {
    const text = createSessionText("raw");
    const cookies = [text.slice(0, 40), text.slice(40)].map(
      (part, index) => `${name}.${index}=${encodeURIComponent(part)}`,
    );
    expect(readToken(cookies.join("; "))).to.equal("raw");
  });

  it("the session cookie parser prefers a whole cookie to chunks, and the first cookie to repeated cookies", () => {
    const chunk = `${name}.0=${encodeSession("chunk")}`;
    expect(readToken(`${chunk}; ${name}=${encodeSession("whole")}`)).to.equal("whole");
    expect(readToken(`${name}=${encodeSession("first")}; ${name}=${encodeSession("second")}`)).to.equal("first");
    expect(readToken(`${name}.0=${encodeSession("first")}; ${name}.0=${encodeSession("second")}`)).to.equal("first");
  });

  it("the session cookie parser ignores empty cookies", () => {
    expect(readToken(`${name}=; ${name}.0=${encodeSession("chunk")}; ${name}.1=`)).to.equal("chunk");
  });

  for (const [title, header] of [
    ["no header", undefined],
    ["no cookie", "a=b"],
    ["a cookie without an equals sign", name],
    ["a cookie with another name", `x${name}=${encodeSession("x")}`],
    ["a cookie name in capital letters", `${name.toUpperCase()}=${encodeSession("x")}`],
    ["an unreadable whole cookie with valid chunks", `${name}=base64-x; ${name}.0=${encodeSession("x")}`],
    ["a missing chunk in the middle", splitIntoCookies(encodeSession("x"), 30).toSpliced(1, 1).join("; ")],
    ["a missing first chunk", splitIntoCookies(encodeSession("x"), 30).slice(1).join("; ")],
    ["a missing last chunk", splitIntoCookies(encodeSession("x"), 30).slice(0, -1).join("; ")],
    ["a stale chunk after the last chunk", `${name}.0=${encodeSession("x")}; ${name}.1=abcd`],
    ["too many chunks", splitIntoCookies(encodeSession("x"), 7).join("; ")],
    ["a chunk number with a leading zero", `${name}.00=${encodeSession("x")}`],
    ["base64 that is not base64url", `${name}=base64-ab+/`],
    ["base64url of bytes that are not UTF-8", `${name}=base64-${Buffer.from([0xff, 0xfe]).toString("base64url")}`],
    ["a text that is not JSON", `${name}=base64-${Buffer.from("hello").toString("base64url")}`],
    ["JSON without a token", `${name}={"user":{}}`],
    ["a token that is not a string", `${name}={"access_token":{}}`],
    ["the JSON value null", `${name}=null`],
  ] as const) {
    it(`the session cookie parser returns undefined for ${title}`, () => {
      expect(readToken(header)).to.equal(undefined);
    });
  }

  it("the session cookie parser returns undefined for any random Cookie header", () => {
    const pieceArbitrary = fc.constantFrom(name, `${name}.0`, `${name}.1`, "=", ";", "base64-", "%", '"', "{", "e30");
    fc.assert(
      fc.property(fc.array(fc.oneof(pieceArbitrary, fc.string())), (pieces) => {
        expect(readToken(pieces.join(""))).to.equal(undefined);
      }),
    );
  });
});
