import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { createMigratedDatabase } from "../../support/migrated-database.ts";
import {
  createApplication,
  type PartnerResponse,
  sendRequest,
  sendTokenRequest,
  startTestCommandService,
  type TestApplication,
} from "../../support/partner.ts";
import { expectRefusal, type RawResponse, sendOneRequest, toRequest } from "../../support/raw-http.ts";
import { useResource } from "../../support/resources.ts";

const FORM_TYPE = "application/x-www-form-urlencoded";
const CHALLENGE = 'Basic realm="token", charset="UTF-8"';

describe("exchangeToken with a form", () => {
  const database = useResource(createMigratedDatabase);
  const command = useResource(() => startTestCommandService({ DATABASE_URL: database.urls.command }));
  let application: TestApplication;

  before(async () => {
    await useNewApplication();
  });

  /**
   * Creates a new application for the tests, because each one can exchange its credentials only 30 times per minute.
   */
  async function useNewApplication() {
    application = await createApplication(command.log, "production", ["appointments:read", "clinic:read"]);
  }

  const createFields = (): Record<string, string> => ({
    client_id: application.applicationId,
    client_secret: application.clientSecret,
    grant_type: "client_credentials",
  });
  const toBasic = (text: string | Buffer) => `Basic ${Buffer.from(text).toString("base64")}`;
  const getBasic = () => toBasic(`${application.applicationId}:${application.clientSecret}`);
  const post = (form: string, headers: Record<string, string> = {}): Promise<PartnerResponse> =>
    sendRequest("POST", `${command.url}/production/v1/oauth/token`, { "Content-Type": FORM_TYPE, ...headers }, form);
  /** Sends a form with valid credentials. @param changes fields to replace; `undefined` removes a field */
  const postFields = (changes: Record<string, string | undefined>) => {
    const fields = Object.entries({ ...createFields(), ...changes }).filter(([, value]) => value !== undefined);
    return post(new URLSearchParams(fields as [string, string][]).toString());
  };
  const postWithBasic = (authorization: string, fields: Record<string, string> = {}) =>
    post(new URLSearchParams({ grant_type: "client_credentials", ...fields }).toString(), {
      Authorization: authorization,
    });
  /** Sends a form over a raw socket, with headers that fetch would refuse or change. */
  const postRaw = (headers: string[], form: string | Buffer): Promise<RawResponse> =>
    sendOneRequest(command.url, toRequest("POST /production/v1/oauth/token HTTP/1.1", headers, form));

  /** Checks an error response. @param path name of the invalid parameter in `details`; undefined for other errors */
  function expectError(response: PartnerResponse, status: number, error: string, path?: string) {
    const { details, ...body } = response.body;
    expect([response.status, body], response.text).to.deep.equal([
      status,
      { ok: false, error, correlationId: response.headers.get("x-correlation-id"), docUrl: `/docs#error-${error}` },
    ]);
    expect(details?.map((detail: { path: string }) => detail.path)).to.deep.equal(path && [path]);
    expect(response.headers.get("cache-control")).to.equal("no-store");
  }

  it("exchangeToken returns the same token response for a form as for JSON", async () => {
    const { body: jsonBody } = await sendTokenRequest(command.url, application);
    for (const response of [await postFields({}), await postWithBasic(getBasic())]) {
      expect(response.status).to.equal(200);
      expect({ ...response.body, access_token: "" }).to.deep.equal({ ...jsonBody, access_token: "" });
      expect(response.headers.get("cache-control")).to.equal("no-store");
      const url = `${command.url}/production/v1/webhook-endpoints`;
      const headers = { Authorization: `Bearer ${response.body.access_token}` };
      // The token is valid, so only the clinic header is missing.
      expect((await sendRequest("POST", url, headers, {})).status).to.equal(403);
    }
  });

  const validForms: [string, () => Promise<PartnerResponse>][] = [
    ["the environment of the URL", () => postFields({ environment: "production" })],
    ["parameters without a value", () => postFields({ environment: "", scope: "" })],
    ["unknown parameters, even repeated", () => post(`${new URLSearchParams(createFields())}&resource=a&resource=b`)],
    [
      "a charset",
      () => post(String(new URLSearchParams(createFields())), { "Content-Type": `${FORM_TYPE};charset=UTF-8` }),
    ],
    ["the client id in upper case", () => postFields({ client_id: application.applicationId.toUpperCase() })],
    ["empty fields between ampersands", () => post(`&&${new URLSearchParams(createFields())}&`)],
    ["Basic and the same client id", () => postWithBasic(getBasic(), { client_id: application.applicationId })],
    [
      "Basic and the same client id in upper case",
      () => postWithBasic(getBasic(), { client_id: application.applicationId.toUpperCase() }),
    ],
    ["`basic` in lower case", () => postWithBasic(getBasic().replace("Basic", "basic"))],
    ["Basic and an escaped id and secret", () => postWithBasic(toBasic(escapeAll(getBasic())))],
  ];
  /** Percent-encodes each character of the id and of the secret in a Basic header. */
  const escapeAll = (basic: string) =>
    Buffer.from(basic.slice("Basic ".length), "base64")
      .toString()
      .replace(/[^:]/g, (character) => `%${character.charCodeAt(0).toString(16)}`);
  for (const [caseName, send] of validForms) {
    it(`exchangeToken accepts a form with ${caseName}`, async () => {
      const response = await send();
      expect([response.status, response.body.scope], response.text).to.deep.equal([
        200,
        "appointments:read clinic:read",
      ]);
    });
  }

  const invalidFields: [string, Record<string, string | undefined>, number, string, string?][] = [
    ["no grant type", { grant_type: undefined }, 400, "invalid_request", "grant_type"],
    ["an empty grant type", { grant_type: "" }, 400, "invalid_request", "grant_type"],
    ["a secret without an id", { client_id: undefined }, 400, "invalid_request", "client_id"],
    ["the other environment", { environment: "sandbox" }, 400, "invalid_request", "environment"],
    ["an unknown environment", { environment: "staging" }, 400, "invalid_request", "environment"],
    ["another grant type", { grant_type: "authorization_code" }, 400, "unsupported_grant_type"],
    ["an unknown scope", { scope: "clinic:read everything" }, 400, "invalid_scope"],
    ["scopes that are all not granted", { scope: "webhooks:write" }, 400, "invalid_scope"],
    ["a wrong secret", { client_secret: "cs_wrong" }, 401, "invalid_client"],
    ["a NUL character after the secret", { client_secret: "cs_wrong\0" }, 401, "invalid_client"],
    ["an id without a secret", { client_secret: undefined }, 401, "invalid_client"],
    ["no credentials", { client_id: undefined, client_secret: undefined }, 401, "invalid_client"],
    ["an unknown id", { client_id: randomUUID() }, 401, "invalid_client"],
    ["an id that is not a UUID", { client_id: "calendar" }, 401, "invalid_client"],
    [
      "the secret in a parameter `client_secret[]`",
      { client_secret: undefined, "client_secret[]": "x" },
      401,
      "invalid_client",
    ],
    [
      "a parameter `__proto__`",
      { client_secret: undefined, ["__proto__"]: "x", "__proto__[client_secret]": "x" },
      401,
      "invalid_client",
    ],
  ];
  for (const [caseName, changes, status, code, path] of invalidFields) {
    it(`exchangeToken returns ${status} ${code} for a form with ${caseName}`, async () => {
      const response = await postFields(changes);
      expectError(response, status, code, path);
      expect(response.headers.get("www-authenticate")).to.equal(null);
    });
  }

  for (const name of ["client_id", "client_secret", "grant_type", "environment", "scope"]) {
    it(`exchangeToken returns 400 invalid_request for a form with a repeated ${name}, even if empty or escaped`, async () => {
      const form = String(new URLSearchParams({ environment: "production", scope: "clinic:read", ...createFields() }));
      for (const repetition of [`${name}=x`, `${name}=`, name, name.replace("i", "%69")]) {
        expectError(await post(`${form}&${repetition}`), 400, "invalid_request", name);
        expectError(await post(`${repetition}&${form}`), 400, "invalid_request", name);
      }
    });
  }

  const malformedForms: [string, () => string | Buffer][] = [
    ["an incomplete escape sequence", () => "grant_type=client_credentials&client_secret=%4"],
    ["an escape sequence that is not UTF-8", () => "grant_type=client_credentials&client_secret=%ff"],
    ["a name that is not UTF-8", () => "%c3%28=x&grant_type=client_credentials"],
    ["unescaped UTF-8", () => "grant_type=client_credentials&client_secret=ü"],
    ["bytes that are not UTF-8", () => Buffer.from([0x61, 0x3d, 0xff])],
    ["a line break", () => "grant_type=client_credentials\r\nclient_secret=x"],
    ["a NUL character", () => "grant_type=client_credentials\0"],
  ];
  for (const [caseName, createForm] of malformedForms) {
    it(`exchangeToken returns 400 invalid_request for a form with ${caseName}`, async () => {
      const response = await postRaw([`Content-Type: ${FORM_TYPE}`], createForm());
      expectRefusal(response, 400, "invalid_request");
      expect(response.body.details[0].path).to.equal("body");
      expect(response.headers["ratelimit-remaining"]).to.match(/^\d+$/);
    });
  }

  describe("and an Authorization header", () => {
    before(useNewApplication);

    const malformedHeaders: [string, () => string][] = [
      ["a wrong secret", () => toBasic(`${application.applicationId}:cs_wrong`)],
      ["an empty secret", () => toBasic(`${application.applicationId}:`)],
      ["no colon", () => toBasic(application.applicationId)],
      ["no credentials", () => "Basic"],
      ["text that is not base64", () => "Basic ???"],
      ["two credentials", () => `${getBasic()}, ${getBasic()}`],
      ["a NUL character", () => toBasic(`${application.applicationId}\0:${application.clientSecret}`)],
      ["a NUL character after the secret", () => toBasic(`${application.applicationId}:${application.clientSecret}\0`)],
      ["bytes that are not UTF-8", () => toBasic(Buffer.from([0xff, 0x3a, 0xfe]))],
      ["an incomplete escape sequence", () => toBasic(`${application.applicationId}:%`)],
      ["an escape sequence that is not UTF-8", () => toBasic(`${application.applicationId}:%ff`)],
      ["a secret of 20 KB", () => toBasic(`${application.applicationId}:${"x".repeat(20_000)}`)],
      ["the scheme Bearer", () => `Bearer ${application.clientSecret}`],
    ];
    for (const [caseName, getHeader] of malformedHeaders) {
      it(`exchangeToken returns 401 invalid_client and a challenge for an Authorization header with ${caseName}`, async () => {
        const response = await postWithBasic(getHeader());
        expectError(response, 401, "invalid_client");
        expect(response.headers.get("www-authenticate")).to.equal(CHALLENGE);
      });
    }
  });

  it("exchangeToken returns 400 invalid_request if a form request sends credentials in several ways", async () => {
    const { client_secret = "" } = createFields();
    expectError(await postWithBasic(getBasic(), { client_secret }), 400, "invalid_request", "client_secret");
    expectError(await postWithBasic("Bearer x", { client_secret }), 400, "invalid_request", "client_secret");
    const otherId = { client_id: randomUUID() };
    expectError(await postWithBasic(getBasic(), otherId), 400, "invalid_request", "client_id");
    const headers = [`Content-Type: ${FORM_TYPE}`, `Authorization: ${getBasic()}`, `Authorization: ${getBasic()}`];
    const response = await postRaw(headers, "grant_type=client_credentials");
    expectRefusal(response, 400, "invalid_request");
    expect(response.body.details[0].path).to.equal("Authorization");
  });

  it("exchangeToken ignores the Authorization header of a JSON request", async () => {
    const url = `${command.url}/production/v1/oauth/token`;
    const request = { ...createFields(), environment: "production" };
    const wrongHeaders = { Authorization: toBasic(`${randomUUID()}:wrong`) };
    expect((await sendRequest("POST", url, wrongHeaders, request)).status).to.equal(200);
    const requestWithoutCredentials = { grant_type: "client_credentials", environment: "production" };
    const refusal = await sendRequest("POST", url, { Authorization: getBasic() }, requestWithoutCredentials);
    expectError(refusal, 401, "invalid_request");
    expect(refusal.headers.get("www-authenticate")).to.equal(null);
  });

  it("exchangeToken reads a body only in the format that its content type declares", async () => {
    const form = String(new URLSearchParams({ ...createFields(), environment: "production" }));
    const json = JSON.stringify({ ...createFields(), environment: "production" });
    expectError(await post(json), 400, "invalid_request", "grant_type");
    expectError(await post(form, { "Content-Type": "application/json" }), 400, "invalid_json", "body");
    for (const type of [
      ...["multipart/form-data; boundary=x", "text/plain", `${FORM_TYPE}, application/json`, `x${FORM_TYPE}`],
      ...[`${FORM_TYPE}; charset=utf-16`, `${FORM_TYPE}; charset=utf-8; charset=iso-8859-1`, "application/form"],
    ]) {
      expectError(await post(form, { "Content-Type": type }), 415, "unsupported_media_type");
    }
    expectError(await post(form, { "Content-Encoding": "gzip" }), 415, "unsupported_media_type");
    const twoTypes = await postRaw([`Content-Type: ${FORM_TYPE}`, "Content-Type: application/json"], form);
    expect(twoTypes.status).to.equal(200);
  });

  it("exchangeToken returns 413 body_too_large for a form of more than 64 KiB", async () => {
    const form = `${new URLSearchParams(createFields())}&padding=`;
    expect((await post(form.padEnd(65_536, "x"))).status).to.equal(200);
    expectError(await post(form.padEnd(65_537, "x")), 413, "body_too_large");
  });

  it("exchangeToken returns 413 body_too_large for a form of more than 1,000 fields", async () => {
    const fields = [...new URLSearchParams(createFields())].map((field) => field.join("="));
    const fill = (count: number) => [...fields, ...Array(count - fields.length).fill("a")].join("&&");
    expect((await post(fill(1_000))).status).to.equal(200);
    expectError(await post(fill(1_001)), 413, "body_too_large", "body");
  });

  it("forms and JSON requests share the rate limit of a client", async () => {
    await useNewApplication();
    const send = [
      () => postFields({}),
      () => postWithBasic(getBasic()),
      () => sendTokenRequest(command.url, application),
    ];
    const sendRequests = (count: number) =>
      Promise.all(Array.from({ length: count }, (_, index) => send[index % 3]!()));
    // An address may send 20 requests at once.
    const responses = [...(await sendRequests(20)), ...(await sendRequests(11))];
    const refusedResponses = responses.filter(({ status }) => status === 429);
    expect(refusedResponses.map(({ body }) => body.error)).to.deep.equal(["rate_limit_exceeded"]);
    expect(responses.filter(({ status }) => status === 200)).to.have.length(30);
  });
});
