/**
 * Program that sends hostile requests of the largest permitted size to all services and measures the CPU time of each.
 * Writes a {@link CostReport} to standard output. To measure no other work, the event log is a file and reads of
 * Postgres return 503.
 */
import { randomBytes, randomInt, randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import type { RequestListener } from "node:http";
import * as openTelemetry from "@opentelemetry/api";
import { createLocalJWKSet, exportJWK, generateKeyPair, SignJWT } from "jose";
import { pino } from "pino";
import type { z } from "zod";
import { type CommandAppOptions, createCommandApp } from "../../../command/app.ts";
import { createAuditApp } from "../../../command/audit/app.ts";
import { createDryRunLog } from "../../../command/cli/import/line-log.ts";
import type { Decide } from "../../../command/handling/aggregate-cache.ts";
import { loadAggregate } from "../../../command/handling/handle.ts";
import { registerAuditor } from "../../../command/operations/auditor-operations.ts";
import { createLinkCodes } from "../../../command/operations/link-codes.ts";
import { createTokenSigner } from "../../../command/partner-api/token-signer.ts";
import { createQueryApp, type QueryApiOptions } from "../../../query-api/app.ts";
import { partnerReads } from "../../../query-api/partner/reads.ts";
import { createPortalOperations } from "../../../query-api/portal/operations.ts";
import { createSessionVerifier } from "../../../query-api/portal/session.ts";
import { createTokenVerifier } from "../../../shared/auth/access-token.ts";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import { deriveSandboxClinicId } from "../../../shared/domain/events/ids.ts";
import { scopes } from "../../../shared/domain/events/partner.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { createUnavailableError } from "../../../shared/http/api-error.ts";
import { listen } from "../../../shared/http/listen.ts";
import { type PartnerWrite, partnerWrites } from "../../../shared/partner-api/writes.ts";
import { setTracing } from "../../../shared/tracing/span.ts";
import { PERSONAL_DATA_KEYS } from "../../support/data-keys.ts";
import * as partner from "../../support/partner.ts";
import { sendOneRequest, toRequest } from "../../support/raw-http.ts";

export interface CostReport {
  /** Numbers of requests, by the part that contains the hostile text, such as `query` or `header cookie`. */
  counts: Record<string, number>;
  /** Requests that took too long in every attempt, or got an unexpected status. */
  problems: string[];
}

/** Maximum CPU time of a request, in milliseconds. */
const MAX_COST_MS = 20;

/** Maximum number of attempts for a request. The fastest counts, because the machine may be busy. */
const MAX_ATTEMPTS = 20;

/** Sizes of hostile text in bytes. The rest of the permitted 32 KiB is for the headers that authorize a request. */
const [HEAD_SIZE, BODY_SIZE] = [31_000, 65_536];

/** Beginning of a text that a parser may accept, and a unit to repeat after it. */
type Pattern = [start: string, unit: string];

const toPatterns = (units: readonly string[], start = "") => units.map((unit): Pattern => [start, unit]);

const COOKIE_NAME = "sb-test-auth-token";
/** Combining marks in non-canonical order. Unicode normalization has to reorder them. */
const MARKS = "\u0301\u0323";
const UNITS = toPatterns(["a", "9", ",", ";", "%61", '"', ".", "/", "a=", "00:00+00:00", "\u00a0"]);
const PARAMETERS = [...UNITS, ...toPatterns(["9"], "2026-01-01T00:00:00.")];
const QUERIES = toPatterns(["%61&", "a[]=1&", "=&", "&", "%&", "__proto__&", "constructor=1&", "?", "#", "a=1&", "a&"]);
const URLS = [...toPatterns(["a.", "[::"], "https://"), ...toPatterns([MARKS, "/%2e"], "https://a")];
const JSON_TEXTS = [...PARAMETERS, ...URLS, ...toPatterns(["ba"], "https://xn--a-"), ...toPatterns(["\\", MARKS])];
const HEADERS: Record<string, Pattern[]> = {
  authorization: [...toPatterns(["a", "."], "Bearer "), ...toPatterns(["YTo6", " "], "Basic ")],
  cookie: ["=", "=base64-", ".0="].flatMap((text) => toPatterns(["a", ";", "%61"], COOKIE_NAME + text)),
  "content-type": toPatterns([";", ";a=", ' ;a="\\', ";charset=utf-8"], "application/json;"),
  "x-forwarded-host": toPatterns(["ba"], "a@xn--a-"),
};

const fill = ([start, unit]: Pattern, size: number, end = "") =>
  start + unit.repeat((size - start.length - end.length) / Buffer.byteLength(unit)) + end;

/** Joins as many distinct members as fit into `size` bytes. */
const join = (size: number, separator: string, format: (index: number) => string) =>
  Array.from({ length: size / (format(9_999) + separator).length }, (_, index) => format(index)).join(separator);

function* listTexts(size: number, patterns: readonly Pattern[]): Generator<string> {
  // With a wrong last character, a regular expression tries all ways to match the characters before it.
  for (const pattern of patterns) yield* [fill(pattern, size), fill(pattern, size, "!")];
  for (const separator of ",;.&") yield join(size, separator, (index) => `n${index}`);
  yield join(size, ";", (index) => `${COOKIE_NAME}.${index}=a`);
}

/** @param names names of the members that the operation reads */
function* listJsonBodies(names: readonly string[]): Generator<string> {
  for (const pattern of toPatterns(["[", '{"a":', "[1,", '"', " ", '"\\u00'])) yield fill(pattern, BODY_SIZE);
  for (const start of ["0.", "1e", "9"]) yield fill([start, "0"], BODY_SIZE, "1");
  yield "[".repeat(BODY_SIZE / 2) + "]".repeat(BODY_SIZE / 2);
  for (const name of ["a", "__proto__", ...names]) {
    for (const value of ["123456789012345", '"\\u0061"', "[]", "{}"]) {
      yield fill(["{", `"${name}":${value},`], BODY_SIZE, '"z":1}');
      for (const size of [990 * value.length, BODY_SIZE]) yield fill([`{"${name}":[`, `${value},`], size, "1]}");
    }
    for (const size of [11_000, 60_000]) yield `{"${name}":{${join(size, ",", (index) => `"n${index}":"a"`)}}}`;
  }
  for (const name of names) {
    for (const text of listTexts(BODY_SIZE - 50, JSON_TEXTS)) yield `{"${name}":${JSON.stringify(text)}}`;
    for (const unit of ['\\"', "\\u0061"]) yield fill([`{"${name}":"`, unit], BODY_SIZE, '"}');
  }
}

function readSources(...folders: string[]): string {
  const list = (folder: string) => readdirSync(folder, { recursive: true, encoding: "utf8" });
  const files = folders.flatMap((folder) => list(folder).map((file) => `${folder}/${file}`));
  return files.flatMap((file) => (file.endsWith(".ts") ? [readFileSync(file, "utf8")] : [])).join("\n");
}

/** Lists the names of the headers that the code reads from `rawHeaders`, in lower case. */
function listRawHeaderNames(): string[] {
  const source = readSources("command", "query-api/partner", "shared/http", "shared/partner-api");
  const names = source.matchAll(/listHeaderValues\([^)]*"([^"]+)"\)|`(X-)\$\{[\w.]*brand\}(-\w+-\w+)`/g);
  const lowerCaseNames = [...names].map(([, name, prefix, end]) => (name ?? `${prefix}service${end}`).toLowerCase());
  return [...new Set(lowerCaseNames)];
}

/** Creates the applications. Each comes with a function that returns the headers of an authorized request. */
async function createApps(log: EventLog, application: partner.TestApplication) {
  const { privateKey } = await generateKeyPair("EdDSA", { extractable: true });
  const tokenIssuer = partner.TOKEN_ISSUER;
  const tokenSigner = await createTokenSigner([{ ...(await exportJWK(privateKey)), kid: "a" }] as never, tokenIssuer);
  const token = await tokenSigner.sign({ ...application, scopes: [...scopes] }, randomUUID(), Date.now());
  const clinicHeader = `X-SERVICE-Clinic-ID: ${deriveSandboxClinicId(application.applicationId)}`;
  const partnerHeaders = [`Authorization: Bearer ${token}`, clinicHeader, "Idempotency-Key: 12345678"];
  const [issuer, secret] = ["http://portal.test", "a secret that is as long as it must be"];
  const session = new SignJWT({ role: "authenticated", sub: randomUUID(), iss: issuer, aud: "authenticated" });
  session.setProtectedHeader({ alg: "HS256" }).setExpirationTime("1h");
  const sessionJson = JSON.stringify({ access_token: await session.sign(Buffer.from(secret)) });
  const sessionSettings = { PORTAL_COOKIE_NAME: COOKIE_NAME, PORTAL_JWT_ISSUER: issuer, PORTAL_JWT_SECRET: secret };
  const logger = pino({ enabled: false });
  const pass = async () => ({ used: 0, endsAt: 0, endsInMs: 0 });
  const refuse = () => {
    throw createUnavailableError("data_source_unavailable", undefined);
  };
  const decide: Decide = (run) => run((aggregate, id) => loadAggregate(log, aggregate, id));
  const installation = { scopes, branchIds: null, animalAccess: "all", rateLimitPerMinute: 1 };
  const access = { isCredentialActive: true, applicationScopes: scopes, installation, isBranchKnown: true };
  const options = {
    ...{ log, logger, brand: "SERVICE", retiredPaths: [], isProxyTrusted: true, checkReadiness: async () => ({}) },
    ...{ operatorName: "Test", cookieName: COOKIE_NAME, origin: tokenIssuer, tokenIssuer, tokenSigner },
    ...{
      decide,
      waitForReadModels: pass,
      disableFailingEndpoint: pass,
      findReplayableDelivery: pass,
      slotSearch: { findResources: pass, findClosures: pass },
      waits: { forPosition: pass },
    },
    limiter: { count: pass, findExcess: () => undefined, release: pass },
    verifySession: await createSessionVerifier(sessionSettings as never, logger),
    verifyToken: createTokenVerifier(createLocalJWKSet(tokenSigner.jwks), tokenIssuer),
    readRow: async ({ name }: { name: string }) => (name === "partner access" ? access : refuse()),
    linkCodes: createLinkCodes(JSON.parse(PERSONAL_DATA_KEYS)),
    secretBox: createSecretBox({ current: "k1", keys: { k1: randomBytes(32).toString("base64") } }),
    ...{
      webhookKeys: { keys: [] },
      allowsLoopback: true,
      signer: {},
      dataKeys: {},
      pool: { query: async () => refuse() },
    },
    client: new Proxy({}, { get: () => refuse }),
    index: new Proxy({}, { get: () => refuse }),
  } as unknown as QueryApiOptions & CommandAppOptions & Parameters<typeof createAuditApp>[0];
  const auditor = { name: "Ada", clinicIds: null, expiresAt: null };
  const registerOne = () =>
    registerAuditor(log, { ...auditor, auditorId: randomUUID() }, partner.createTestOperatorContext(0));
  const auditors = await Promise.all(Array.from({ length: 60 }, registerOne));
  // A minute permits few requests of an auditor, and few wrong credentials from an address.
  const getAuditHeaders = () => [
    `Authorization: Bearer ${auditors[randomInt(60)]?.credential}`,
    `X-Forwarded-For: 192.0.2.${randomInt(256)}`,
  ];
  const cookie = `Cookie: ${COOKIE_NAME}=${encodeURIComponent(sessionJson)}`;
  return [
    [createQueryApp(options), () => [cookie, ...partnerHeaders]],
    [createCommandApp(options), () => partnerHeaders],
    [createAuditApp(options), getAuditHeaders],
  ] as const;
}

interface Route {
  name: string;
  method: string;
  path: string;
}

/** Lists one route per name. Both environments share names, and so do the files of a page. */
function listRoutes(app: { middleware: unknown[] }): Route[] {
  type Router = { stack: (Route & { methods: string[] })[] };
  const layers = (app.middleware as { router?: Router }[]).flatMap(({ router }) => router?.stack ?? []);
  const routes = layers.map(({ name, path, methods }): [string, Route] => {
    // The audit API accepts all methods, and refuses the wrong ones in the handler.
    const method = name === "audit.search" ? "POST" : methods.includes("GET") ? "GET" : (methods[0] ?? "");
    return [name, { name, method, path }];
  });
  return [...new Map(routes.filter(([name]) => name).toReversed()).values()];
}

/** Lists the declared parameters of a read, or the declared body members of a write. */
function listDeclarations(routeName: string): [name: string, declaration: unknown][] {
  const [api, id = ""] = routeName.split(".");
  const reads = api === "portal" ? createPortalOperations({ operatorName: "Test" }) : partnerReads;
  const read = reads.find(({ operationId }) => operationId === id);
  const request = (partnerWrites as Record<string, PartnerWrite>)[id]?.request as z.ZodObject | undefined;
  return Object.entries(request?.shape ?? { ...read?.parameters, ...(read && "isPaged" in read && { cursor: api }) });
}

/**
 * Finds the parameters of an audit operation: sends all words in the source code, and drops those reported as unknown.
 */
async function findAuditNames(send: (names: string[]) => Promise<{ status: number; text: string }>): Promise<string[]> {
  const words = [...new Set(readSources("command/audit").match(/\b[a-z]\w+\b/g))];
  const names: string[] = [];
  while (words.length > 0) {
    const triedWords = words.splice(0, 90);
    const { status, text } = await send(triedWords);
    if (status === 400) names.push(...triedWords.filter((word) => !text.includes(`\\"${word}\\"`)));
  }
  return names;
}

async function measureAll(log: EventLog): Promise<CostReport> {
  const report: CostReport = { counts: {}, problems: [] };
  const readNames = new Set<string>();
  let handle: RequestListener = () => undefined;
  const observe: RequestListener = (request, response) => {
    const get = (headers: object, name: string) => Reflect.get(headers, readNames.add(name) && name);
    Object.defineProperty(request, "headers", { value: new Proxy(request.headers, { get }) });
    handle(request, response);
  };
  const server = await listen(observe, "127.0.0.1", 0);
  type Request = [line: string, headers: string[], body?: string];
  const send = (...[line, headers, body]: Request) =>
    sendOneRequest(server.url, toRequest(`${line} HTTP/1.1`, headers, body));

  async function measure(place: string, request: Request): Promise<void> {
    if (report.problems.length > 10) return;
    report.counts[place] = (report.counts[place] ?? 0) + 1;
    let [cost, status] = [Number.POSITIVE_INFINITY, 0];
    for (let attempt = 0; cost >= MAX_COST_MS && attempt < MAX_ATTEMPTS; attempt += 1) {
      const usage = process.cpuUsage();
      ({ status } = await send(...request));
      const { user, system } = process.cpuUsage(usage);
      cost = Math.min(cost, (user + system) / 1_000);
    }
    const summary = request.flat().map((text) => text?.replace(/^(.{120}).+(.{9})$/su, "$1…$2"));
    if (cost >= MAX_COST_MS || status === 429 || status === 500)
      report.problems.push(`${place}: ${cost} ms, status ${status}, ${summary.join(" | ")}`);
  }

  const application = await partner.createApplication(log, "sandbox");
  const { applicationId, clientSecret } = application;
  const credentials = `grant_type=client_credentials&client_id=${applicationId}&client_secret=${clientSecret}&scope=`;
  const forms = [...UNITS.slice(0, -1), ...QUERIES, ...toPatterns(["a+", "%61", "&scope=a"], credentials)];
  const formType = "Content-Type: application/x-www-form-urlencoded";
  for (const [app, getHeaders] of await createApps(log, application)) {
    handle = app.callback();
    /** Headers, path parameters and declarations measured so far. Operations share many of them. */
    const measured = new Set<unknown>();
    const isNew = (item: unknown) => !measured.has(item) && measured.add(item) !== undefined;
    for (const { name: routeName, method, path } of listRoutes(app)) {
      const line = `${method} ${path.replace(/:\w+/g, () => randomUUID())}`;
      const body = /POST|PATCH/.test(method) ? "{}" : "";
      const getAllHeaders = () => [...getHeaders(), ...(body && ["Content-Type: application/json"])];
      readNames.clear();
      const { status } = await send(line, getAllHeaders(), body);
      const isRefused =
        status === 404 ? !path.includes(":") : status === 401 ? !path.endsWith("/token") : status === 403;
      if (isRefused || status === 405) report.problems.push(`${line} returned ${status}`);
      const headerNames = [...readNames].filter(isNew);
      if (/exchangeToken|createPartnerApp|listEvents|audit.me/.test(routeName))
        headerNames.push(...listRawHeaderNames());
      const sendNames = (triedNames: string[]) => {
        const members = triedNames.map((name): [string, string] => [name, "\0"]);
        if (body) return send(line, getAllHeaders(), JSON.stringify(Object.fromEntries(members)));
        return send(`${line}?${new URLSearchParams(members)}`, getAllHeaders());
      };
      const names = routeName.startsWith("audit.")
        ? await findAuditNames(sendNames)
        : listDeclarations(routeName).flatMap(([name, declaration]) => (isNew(declaration) ? [name] : []));
      for (const pattern of QUERIES)
        await measure("query", [`${line}?${fill(pattern, HEAD_SIZE)}`, getAllHeaders(), body]);
      for (const name of body ? [] : names)
        for (const text of listTexts(HEAD_SIZE, [...PARAMETERS, ["", `&${name}=`]]))
          await measure("parameter", [`${line}?${name}=${text}`, getAllHeaders()]);
      for (const name of headerNames) {
        const getOthers = () => getAllHeaders().filter((header) => !header.toLowerCase().startsWith(`${name}:`));
        for (const text of listTexts(HEAD_SIZE, [...UNITS, ...(HEADERS[name] ?? []), ["a", `\r\n${name}: a`]]))
          await measure(`header ${name}`, [line, [`${name}: ${text}`, ...getOthers()], body]);
      }
      if (path.split("/").some((part) => part.startsWith(":") && isNew(part)))
        for (const text of listTexts(HEAD_SIZE, UNITS))
          await measure("path", [line.replace(/[0-9a-f-]{36}/, text), getAllHeaders(), body]);
      for (const text of body ? listJsonBodies(names) : []) await measure("JSON", [line, getAllHeaders(), text]);
      if (/exchangeToken/.test(routeName))
        for (const text of listTexts(BODY_SIZE, forms)) await measure("form", [line, [formType], text]);
    }
    for (const start of ["/", "//", "http://", "/api/v1/", "/health/"])
      for (const text of listTexts(HEAD_SIZE, UNITS)) await measure("path", [`GET ${start}${text}`, getHeaders()]);
  }
  await server.close();
  return report;
}

setTracing({ tracer: openTelemetry.trace.getTracer("test"), api: openTelemetry });
const emptyLog = { read: async () => [], readLast: async () => undefined, append: async () => 0n };
process.stdout.write(JSON.stringify(await measureAll(createDryRunLog(emptyLog))));
