import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { calculateJwkThumbprint } from "jose";
import pg from "pg";
import { authenticate } from "../../../command/audit/http/auditor-access.ts";
import { startAuditService } from "../../../command/audit/start.ts";
import { AUDITOR_PREFIX } from "../../../command/operations/auditor-operations.ts";
import { readAuthorization } from "../../../command/operations/credentials.ts";
import type { AuditAccessEvent, AuditorEvent } from "../../../shared/domain/events/audit.ts";
import { runClinic as clinicCli } from "../cli/terminal.ts";
import { type ClinicHistory, createClinicWithHistory, insertDeliveries, requestAudit, useAuditWorld } from "./world.ts";

describe("auditors' access", () => {
  const { world, history, auditor } = useAuditWorld();
  let foreignHistory: ClinicHistory;

  before(async () => {
    foreignHistory = await createClinicWithHistory(world.log);
  });

  it("GET /audit/v1/me returns the auditor who owns the credential", async () => {
    const { status, body, headers } = await auditor.request("/audit/v1/me");
    expect(status).to.equal(200);
    const { auditorId: id } = auditor;
    const { keys } = (await requestAudit(`${world.url}/audit/v1/jwks.json`)).body;
    expect(body.keyThumbprint).to.equal(await calculateJwkThumbprint(keys[0]));
    expect(body.auditor).to.deep.equal({ id, name: "Ada Audit", clinicIds: [history.clinicId], expiresAt: null });
    expect(headers.get("Cache-Control")).to.equal("no-store");
  });

  const requestMe = (headers: Record<string, string> = {}) => requestAudit(`${world.url}/audit/v1/me`, headers);
  const toBearerHeader = (credential: string) => ({ Authorization: `Bearer ${credential}` });

  it("the audit API returns the same 401 for an unknown, wrong, revoked or expired credential", async () => {
    const credentialWithWrongSecret =
      auditor.credential.slice(0, -43) + (await world.registerAuditor(null)).credential.slice(-43);
    const unknownCredential = `aud_${randomUUID().replaceAll("-", "")}_${auditor.credential.slice(-43)}`;
    const revokedAuditor = await world.registerAuditor(null);
    expect((await revokedAuditor.request("/audit/v1/me")).status).to.equal(200);
    await revokedAuditor.revoke();
    const expiredAuditor = await world.registerAuditor(null, new Date(Date.now() - 1).toISOString());
    for (const credential of [
      credentialWithWrongSecret,
      unknownCredential,
      revokedAuditor.credential,
      expiredAuditor.credential,
      "aud_x",
      "x",
    ]) {
      const { status, body, headers } = await requestMe(toBearerHeader(credential));
      expect([status, body.error]).to.deep.equal([401, "invalid_token"]);
      expect(headers.get("WWW-Authenticate")).to.equal('Bearer error="invalid_token"');
    }
    expect((await requestMe()).body.error).to.equal("missing_token");
  });

  it("the audit API accepts a credential until the credential expires", async () => {
    const expiringAuditor = await world.registerAuditor(null, new Date(Date.now() + 60_000).toISOString());
    expect((await expiringAuditor.request("/audit/v1/me")).status).to.equal(200);
  });

  it("HEAD is answered without a body, also for streamed responses", async () => {
    for (const path of [`events?clinic=${history.clinicId}`, `export?clinic=${history.clinicId}`, "me"]) {
      const { status, body } = await fetch(`${world.url}/audit/v1/${path}`, {
        ...{ method: "HEAD", headers: toBearerHeader(auditor.credential) },
      });
      expect([status, body], path).to.deep.equal([200, null]);
    }
  });

  it("an access is recorded with auditor, query, time and correlation id before the response is sent", async () => {
    const requestingAuditor = await world.registerAuditor(null);
    const path = `/audit/v1/events?stream=${history.stream}&type=AppointmentConfirmed`;
    const { headers, status } = await requestingAuditor.request(path);
    expect(status).to.equal(200);
    const correlationId = headers.get("X-Correlation-ID");
    const { lines } = await requestingAuditor.request(`/audit/v1/events?auditor=${requestingAuditor.auditorId}`);
    expect(lines.map(({ type }) => type)).to.deep.equal(["AuditorRegistered", "AuditAccessed", "AuditAccessed"]);
    expect(lines[1]).to.deep.include({ correlationId, actor: { type: "auditor", id: requestingAuditor.auditorId } });
    expect(Date.now() - Date.parse(lines[1].occurredAt)).to.be.within(0, 60_000);
    expect(lines[1].data).to.deep.include({
      auditorId: requestingAuditor.auditorId,
      action: "events",
      asked: { stream: history.stream, type: "AppointmentConfirmed" },
    });
    expect(lines[0].data.secretHash).to.equal("(withheld)");
    const [accessEvent] = await world.log.read<AuditAccessEvent>(lines[2].stream);
    expect(accessEvent?.data.asked).to.deep.equal({ auditor: requestingAuditor.auditorId });
  });

  it("no query returns events, states or exports of a clinic that is outside the auditor's scope", async () => {
    const { stream, clinicId, customerId, animalId, appointmentId, requestContext } = foreignHistory;
    for (const query of [
      ...[`stream=${stream}`, `stream=clinic-${clinicId}`, `clinic=${clinicId}`, `customer=${customerId}`],
      ...[`animal=${animalId}`, `appointment=${appointmentId}`, `correlation=${requestContext.correlationId}`],
      ...[`auditor=${auditor.auditorId}`, `stream=auditor-${auditor.auditorId}`],
    ]) {
      const { status, lines, end } = await auditor.request(`/audit/v1/events?${query}`);
      expect([status, lines, end.count], query).to.deep.equal([200, [], 0]);
    }
    for (const path of [`state?stream=${stream}`, `diff?stream=${stream}`, `replay?stream=${stream}`]) {
      const { status, body } = await auditor.request(`/audit/v1/${path}`);
      expect([status, body.error], path).to.deep.equal([404, "stream_not_found"]);
      const missingStreamResponse = await auditor.request(
        `/audit/v1/${path.replace(stream, `appointment-${randomUUID()}`)}`,
      );
      expect([missingStreamResponse.status, missingStreamResponse.body.error]).to.deep.equal([404, "stream_not_found"]);
    }
    for (const invisibleClinicId of [clinicId, randomUUID()]) {
      const { status, body } = await auditor.request(`/audit/v1/export?clinic=${invisibleClinicId}`);
      expect([status, body.error]).to.deep.equal([404, "stream_not_found"]);
    }
  });

  it("if a request changed two clinics, an auditor of only one clinic sees only the events of that clinic", async () => {
    const correlationId = randomUUID();
    for (const { clinicId, customerId } of [history, foreignHistory]) {
      await world.log.append(`customer-${randomUUID()}`, -1n, [
        {
          id: randomUUID(),
          event: {
            type: "CustomerRegistered",
            data: { customerId, clinicId, fullName: "Ada", phone: null, email: null, city: null },
          },
          metadata: {
            $correlationId: correlationId,
            $causationId: correlationId,
            environment: "production",
            actor: { type: "operator", id: "test" },
            clinicId,
            occurredAt: "2026-05-04T08:00:00.000Z",
          },
        },
      ]);
    }
    const path = `/audit/v1/events?correlation=${correlationId}`;
    expect((await auditor.request(path)).lines.map(({ clinicId }) => clinicId)).to.deep.equal([history.clinicId]);
    expect((await (await world.registerAuditor(null)).request(path)).lines).to.have.length(2);
  });

  it("the operator's command line registers an auditor, prints the credential once, and revokes the auditor", async () => {
    const env = { EVENTSTORE_URL: world.env.EVENTSTORE_URL };
    const registerArgs = ["auditor", "register", "--name", "Ada", "--clinics", history.clinicId, "--json"];
    const { code, outputLines: out } = await clinicCli(registerArgs, { env });
    const { auditorId: id, credential } = JSON.parse(out.join("\n"));
    expect(code).to.equal(0);
    expect((await requestMe(toBearerHeader(credential))).body.auditor.clinicIds).to.deep.equal([history.clinicId]);
    const [registeredEvent] = await world.log.read<AuditorEvent>(`auditor-${id}`);
    expect(JSON.stringify(registeredEvent?.data)).not.to.contain(credential.slice(-43));
    expect((await clinicCli(["auditor", "revoke", "--auditor", id], { env })).code).to.equal(0);
    expect((await requestMe(toBearerHeader(credential))).status).to.equal(401);
    const refusedCommands: [string[], string][] = [
      [["auditor", "register", "--name", "Ada", "--auditor", id], "auditor_exists"],
      [["auditor", "register", "--name", "Ada", "--clinics", randomUUID()], "clinic_not_found"],
      [["auditor", "register", "--name", "Ada", "--expires-at", "2020-01-01T00:00:00Z"], "expiry_passed"],
      [["auditor", "revoke", "--auditor", randomUUID()], "auditor_not_found"],
    ];
    for (const [args, problem] of refusedCommands) {
      const { code, errorLines: err } = await clinicCli(args, { env });
      expect([code, err.join()]).to.satisfy(
        ([exitCode, line]: [number, string]) => exitCode === 3 && line.includes(problem),
      );
    }
  });

  it("authentication reads the event log exactly once, both for an unknown auditor and for a wrong secret", async () => {
    const { credential } = await world.registerAuditor(null);
    const unknownCredential = `aud_${randomUUID().replaceAll("-", "")}_${credential.slice(-43)}`;
    const credentialWithWrongSecret = credential.slice(0, -43) + auditor.credential.slice(-43);
    for (const givenCredential of [unknownCredential, credentialWithWrongSecret]) {
      let readCount = 0;
      const countingLog = {
        ...world.log,
        read: ((stream: string) => {
          readCount += 1;
          return world.log.read(stream);
        }) as typeof world.log.read,
      };
      const code = await authenticate(
        countingLog,
        readAuthorization(AUDITOR_PREFIX, `Bearer ${givenCredential}`),
        Date.now(),
      ).catch(({ code }) => code);
      expect([code, readCount]).to.deep.equal(["invalid_token", 1]);
    }
  });

  it("the audit service's database role cannot write to the database, and cannot read pending webhooks", async () => {
    const client = new pg.Client(world.database.urls.audit);
    await client.connect();
    await client.query("SELECT delivery_id, status FROM webhooks.delivery");
    await client.query("SELECT * FROM webhooks.attempt");
    for (const sql of [
      "SELECT * FROM webhooks.pending_delivery",
      "SELECT * FROM webhooks.failing_endpoint",
      "SELECT * FROM rate_limit.counter",
      "UPDATE webhooks.delivery SET status = 'delivered'",
      "DELETE FROM webhooks.attempt",
      "CREATE TABLE webhooks.mine ()",
      "CREATE TABLE public.mine ()",
    ]) {
      const message = await client.query(sql).catch((error: Error) => error.message);
      expect(message, sql).to.contain("permission denied");
    }
    await client.end();
  });

  it("GET /audit/v1/deliveries returns only deliveries of the auditor's clinics, or 503 while the database is unavailable", async () => {
    await insertDeliveries(world, history, "gone");
    const path = `/audit/v1/deliveries?stream=${history.stream}`;
    const { body } = await auditor.request(path);
    expect(body.deliveries).to.have.length(1);
    expect(body.deliveries[0]).to.deep.include({
      clinicId: history.clinicId,
      appointmentId: history.stream.slice("appointment-".length),
      position: "0",
      status: "failed",
    });
    expect(body.deliveries[0].attempts[0]).to.include({ number: 1, statusCode: 500, answer: "gone" });
    const { id, endpointId } = body.deliveries[0];
    for (const query of [`delivery=${id}`, `stream=webhookEndpoint-${endpointId}`]) {
      expect((await auditor.request(`/audit/v1/deliveries?${query}`)).body.deliveries).to.have.length(1);
      const foreignAuditor = await world.registerAuditor([foreignHistory.clinicId]);
      expect((await foreignAuditor.request(`/audit/v1/deliveries?${query}`)).body.deliveries).to.have.length(0);
    }
    const accesses = await auditor.request(`/audit/v1/accesses?stream=${history.stream}`);
    const access = accesses.text.split("\n").find((line) => line.includes(`"delivery":"${id}"`));
    expect(JSON.parse(access ?? "{}")).to.deep.include({ action: "deliveries", relation: "certain" });
    const unlimitedAuditor = await world.registerAuditor(null);
    expect((await unlimitedAuditor.request(path)).body.deliveries).to.have.length(2);
    const several = `${path},${foreignHistory.stream},webhookEndpoint-${endpointId}`;
    expect((await unlimitedAuditor.request(several)).body.deliveries).to.have.length(3);
    const ofCustomer = `/audit/v1/accesses?customer=${foreignHistory.customerId}&order=newest`;
    const [, recorded] = (await unlimitedAuditor.request(ofCustomer)).lines;
    expect(recorded, "although there are no deliveries of this customer").to.deep.include({
      ...{ action: "deliveries", relation: "certain", asked: { stream: several.slice(several.indexOf("=") + 1) } },
    });
    const tooMany = `${path}${`,${history.stream}`.repeat(20)}`;
    expect((await auditor.request(tooMany)).body.details[0].path).to.equal("stream");
    const service = await startAuditService({ ...world.env, DATABASE_URL: "postgres://nobody@127.0.0.1:1/clinic" });
    const response = await requestAudit(`${service.url}${path}`, toBearerHeader(auditor.credential));
    expect([response.status, response.body.error]).to.deep.equal([503, "data_source_unavailable"]);
    expect((await requestAudit(`${service.url}/audit/v1/me`, toBearerHeader(auditor.credential))).status).to.equal(200);
    await service.stop();
  });

  it("the audit API returns 400 for an invalid query and names the invalid parameter", async () => {
    const invalidQueries: [string, string][] = [
      ["events", "query"],
      [`events?stream=${history.stream}&clinic=${history.clinicId}`, "query"],
      ["events?stream=kitchen-1", "stream"],
      // The API refuses queries with NUL, because an access event cannot store NUL.
      ["events?stream=appointment-%00", "stream"],
      [`events?clinic=${history.clinicId}&actor=%00`, "actor"],
      ...["state", "diff", "replay", "deliveries"].map((name): [string, string] => [
        `${name}?stream=appointment-%00`,
        "stream",
      ]),
      ["deliveries", "query"],
      [`deliveries?stream=${history.stream}&delivery=${randomUUID()}`, "query"],
      ["deliveries?delivery=last", "delivery"],
      ["me?x=%00", "query"],
      [`events?clinic=x`, "clinic"],
      [`events?clinic=${history.clinicId}&type=Nothing`, "type.0"],
      [`events?clinic=${history.clinicId}&from=yesterday`, "from"],
      [`events?clinic=${history.clinicId}&clinic=${history.clinicId}`, "clinic"],
      [`state?stream=${history.stream}&at=noon`, "at"],
      [`export?clinic=${history.clinicId}&to=2999-01-01T00:00:00Z`, "to"],
      [`export?clinic=${history.clinicId}&from=2999-01-01T00:00:00Z`, "from"],
      ...["export", "events"].flatMap((name) =>
        ["2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"].map((rangeEnd): [string, string] => [
          `${name}?clinic=${history.clinicId}&from=2026-01-02T00:00:00Z&to=${rangeEnd}`,
          "to",
        ]),
      ),
    ];
    for (const [path, field] of invalidQueries) {
      const { status, body } = await auditor.request(`/audit/v1/${path}`);
      expect([status, body.error, body.details[0].path], path).to.deep.equal([400, "invalid_query", field]);
    }
  });
});
