import { readdirSync, readFileSync } from "node:fs";
import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { expect } from "chai";
import fc from "fast-check";
import Koa from "koa";
import { partnerReads } from "../../../query-api/partner/reads.ts";
import { partnerOperations } from "../../../shared/partner-api/operations.ts";
import { startAuditWorld } from "../../command/audit/world.ts";
import { createCaller } from "../../query-api/partner/caller.ts";
import { openClinic } from "../../support/clinics.ts";
import { setUpQueryApi } from "../../support/query-api.ts";
import { createSilentApp } from "../../support/silent-app.ts";

const fillers = (count: number) => "a&".repeat(count);

describe("the query of a request", () => {
  const api = setUpQueryApi();
  const app = createSilentApp();

  function parse(koa: Koa<never>, url: string): Record<string, unknown> {
    const message = Object.assign(new IncomingMessage(new Socket()), { url });
    return koa.createContext(message, new ServerResponse(message)).query;
  }

  it("a query with at most 100 members is parsed as Koa does", () => {
    const parts = ["a", "b", "=", "&", "+", "%61", "%", "%C3", "?", "[]", "__proto__", "constructor", "1", "é", "%00"];
    const query = fc.array(fc.constantFrom(...parts), { maxLength: 40 }).map((texts) => texts.join(""));
    fc.assert(
      fc.property(query, (text) => {
        for (const url of [`/x?${text}`, `/api/v1/x?${text}`, `/x${text}`])
          expect(Object.entries(parse(app as Koa<never>, url))).to.deep.equal(Object.entries(parse(new Koa(), url)));
      }),
    );
  });

  it("empty members of a query do not count", () => {
    const query = `${"&".repeat(1_000)}${fillers(99)}limit=5&&`;
    expect(parse(app as Koa<never>, `/x?${query}`)).to.deep.equal({ a: Array(99).fill(""), limit: "5" });
  });

  it("the portal API ignores the members of a query after the hundredth", async () => {
    const { userId } = await openClinic(api.given);
    const readStart = async (query: string) =>
      (await api.get(`/api/v1/appointments?${query}`, userId)).body.window.from;
    const from = "2026-01-01T00:00:00.000Z";
    expect(await readStart(`${fillers(99)}from=${from}`)).to.equal(from);
    expect(await readStart(`${fillers(100)}from=${from}`)).to.not.equal(from);
    expect(await readStart(`${fillers(98)}from=${from}&b&from=${from}`)).to.equal(from);
  });

  it("all reads of the partner API refuse a query with more than 100 members, and count the request", async () => {
    const { clinic, get } = await createCaller(api);
    for (const { operationId } of partnerReads.filter((read) => read.operationId !== "getSandboxState")) {
      const path = partnerOperations[operationId].path.replace(/:\w+/g, clinic.clinicId);
      const { status, body, headers } = await get(`${path}?${fillers(101)}`);
      expect([status, body.error], operationId).to.deep.equal([400, "validation_failed"]);
      expect(body.details).to.deep.equal([{ path: "query", message: "must have at most 100 members" }]);
      expect(headers.get("RateLimit-Policy")).to.match(/^"(installation|application)"/);
      expect((await get(`${path}?${fillers(100)}`)).body.error, operationId).to.not.equal("validation_failed");
    }
  });

  it("the audit API refuses a query with more than 100 members after it has authenticated the auditor", async () => {
    const world = await startAuditWorld();
    const auditor = await world.registerAuditor(null);
    for (const name of ["me", "events", "state", "clinics", "readers", "export", "tree-head", "inclusion-proof"]) {
      const { status, body } = await auditor.request(`/audit/v1/${name}?${fillers(101)}`);
      expect([status, body.error], name).to.deep.equal([400, "validation_failed"]);
    }
    const { status } = await auditor.request(`/audit/v1/me?${fillers(101)}`, { Authorization: "Bearer none" });
    expect(status).to.equal(401);
    await world.stop();
  });

  it("no code parses the query of a request except the function that limits its members", () => {
    const files = ["command", "projection", "query-api", "shared"].flatMap((folder) =>
      readdirSync(folder, { recursive: true, encoding: "utf8" }).map((file) => `${folder}/${file}`),
    );
    const parser = /URLSearchParams|searchParams|querystring\b|\b(ctx|request)\.(search|URL|href)\b/;
    const parsingFiles = files.filter((file) => file.endsWith(".ts") && parser.test(readFileSync(file, "utf8")));
    const settingFiles = ["command-line/operator", "postgres/connection-string", "runtime/setting-schemas"];
    const sharedFiles = ["http/request", ...settingFiles].map((name) => `shared/${name}.ts`);
    // A command that sends requests builds their queries.
    expect(parsingFiles).to.have.members([...sharedFiles, "command/cli/commands/listen.ts"]);
  });
});
