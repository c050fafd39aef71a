import { expect } from "chai";
import { deriveInstallationId } from "../../../shared/domain/events/ids.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { eventually } from "../../support/eventually.ts";
import { installationApproved } from "../../support/partner-events.ts";
import { setUpQueryApi } from "../../support/query-api.ts";
import { createCaller } from "./caller.ts";

/** Header with a log position that does not exist. */
const INVENTED_POSITION_HEADERS = { "X-SERVICE-Log-Position": "9".repeat(19) };

describe("reads with a log position", () => {
  const api = setUpQueryApi();

  const measureTime = async <T>(promise: Promise<T>) => {
    const startedAt = performance.now();
    const response = await promise;
    return { result: response, durationMs: performance.now() - startedAt };
  };

  /**
   * Checks that a request does not wait for the log position, which would take two seconds. The fastest of five
   * attempts counts, because the machine may be busy.
   */
  const expectImmediately = async (send: () => Promise<void>) => {
    const durationsMs: number[] = [];
    for (let count = 0; count < 5; count += 1) durationsMs.push((await measureTime(send())).durationMs);
    expect(Math.min(...durationsMs)).to.be.below(1_500);
  };

  it("the service is notified of the position instead of reading it all the time", async () => {
    await eventually("the connection that listens", async () => {
      const { rows } = await api.database.admin.query(
        "SELECT FROM pg_stat_activity WHERE application_name = 'query-api notifications' AND datname = current_database()",
      );
      return rows.length === 1;
    });
  });

  it("requests by one application that wait for a nonexistent log position do not delay other applications", async () => {
    const [floodingCaller, otherCaller] = [await createCaller(api), await createCaller(api)];
    await otherCaller.readBody("getClinicContext", "/clinic/context");
    const waitingReadPromises = Array.from({ length: 70 }, () =>
      measureTime(floodingCaller.get("/clinic/context", { headers: INVENTED_POSITION_HEADERS })),
    );
    const withReachedPosition = { headers: { "X-SERVICE-Log-Position": "0" } };
    const otherResponses = await Promise.all([
      measureTime(otherCaller.get("/clinic/context", withReachedPosition)),
      measureTime(otherCaller.get("/clinic/context")),
      measureTime(floodingCaller.get("/clinic/context")),
    ]);
    for (const { result } of otherResponses) expect(result.status).to.equal(200);
    const timedResponses = await Promise.all(waitingReadPromises);
    for (const { result, durationMs } of timedResponses) {
      expect([result.status, result.body.error]).to.deep.equal([503, "read_model_behind"]);
      expect(result.headers.get("Retry-After")).to.equal("1");
      expect([...result.headers.keys()].filter((name) => name.includes("position"))).to.deep.equal([]);
      expect(durationMs).to.be.below(10_000);
    }
    expect((await otherCaller.get("/clinic/context", withReachedPosition)).status).to.equal(200);
  });

  it("a request that exceeds the installation's rate limit does not wait for the log position", async () => {
    const caller = await createCaller(api);
    const { application, clinic } = caller;
    await api.given(installationApproved(application, clinic.clinicId, { rateLimitPerMinute: 2 }));
    const timedResponses = await Promise.all(
      Array.from({ length: 8 }, () =>
        measureTime(caller.get("/clinic/context", { headers: INVENTED_POSITION_HEADERS })),
      ),
    );
    const rateLimitedResponses = timedResponses.filter(({ result }) => result.status === 429);
    expect(rateLimitedResponses).to.have.length(6);
    const waitingResponses = timedResponses.filter(({ result }) => result.body.error === "read_model_behind");
    expect(waitingResponses).to.have.length(2);
    const [shortestWaitMs, longestRefusalMs] = [
      Math.min(...waitingResponses.map(({ durationMs }) => durationMs)),
      Math.max(...rateLimitedResponses.map(({ durationMs }) => durationMs)),
    ];
    expect(longestRefusalMs).to.be.below(shortestWaitMs);
  });

  it("a refused request waits until the read models reach the log position, and is then checked a second time", async () => {
    const caller = await createCaller(api);
    const { application, clinic } = caller;
    const { applicationId } = application;
    const id = deriveInstallationId(applicationId, clinic.clinicId);
    await api.given({ type: "InstallationRevoked", data: { installationId: id, reason: null } });
    const { rows } = await api.database.admin.query(`SELECT position FROM ${READ_MODEL_SCHEMA}.checkpoint`);
    const headers = { "X-SERVICE-Log-Position": String(BigInt(rows[0].position) + 1n) };
    const waitingReadPromise = caller.get("/clinic/context", { headers });
    await eventually("the request is counted as a refused request", async () => {
      const { rowCount } = await api.database.admin.query("SELECT FROM rate_limit.counter WHERE key = $1", [
        `refused ${applicationId}`,
      ]);
      return rowCount === 1;
    });
    await api.given(installationApproved(application, clinic.clinicId));
    expect((await waitingReadPromise).status).to.equal(200);
  });

  it("a request is refused immediately if the read models have already reached the log position", async () => {
    const caller = await createCaller(api);
    const { applicationId, credentialId } = caller.application;
    await api.given({ type: "CredentialRevoked", data: { applicationId, credentialId } });
    const headers = { "X-SERVICE-Log-Position": "0" };
    await expectImmediately(async () => {
      const { status, body } = await caller.get("/clinic/context", { headers });
      expect([status, body.error]).to.deep.equal([401, "invalid_token"]);
    });
  });

  it("a request with an invalid log position is refused", async () => {
    const caller = await createCaller(api);
    for (const text of ["-1", "x", "1, 2", "", "9".repeat(21)])
      expect(
        await caller.readRefusal("/clinic/context", { headers: { "X-SERVICE-Log-Position": text } }),
        text,
      ).to.equal("400 invalid_log_position");
  });

  it("a request with a log position but without a token is refused immediately", async () => {
    await expectImmediately(async () => {
      const url = `${api.url}/production/v1/clinic/context`;
      expect((await fetch(url, { headers: INVENTED_POSITION_HEADERS })).status).to.equal(401);
    });
  });
});
