import { expect } from "chai";
import { type HttpServer, listen } from "../../../shared/http/listen.ts";
import { eventually } from "../../support/eventually.ts";
import { createSilentApp } from "../../support/silent-app.ts";

describe("the readiness of a service", () => {
  let server: HttpServer;
  let receivedRequests = 0;
  const waitingChecks: (() => void)[] = [];

  before(async () => {
    const checkReadiness = () =>
      new Promise<Record<string, null>>((resolve) => waitingChecks.push(() => resolve({ server: null })));
    const handleRequest = createSilentApp({ checkReadiness }).callback();
    server = await listen(
      (request, response) => {
        receivedRequests += 1;
        void handleRequest(request, response);
      },
      "127.0.0.1",
      0,
    );
  });
  after(() => server.close());

  it("requests that arrive during a check share it, and the next request starts another one", async () => {
    for (const expectedChecks of [1, 2]) {
      const paths = Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? "/health/ready" : "/metrics"));
      receivedRequests = 0;
      const responsesPromise = Promise.all(paths.map((path) => fetch(`${server.url}${path}`)));
      await eventually("all requests arrive", () => receivedRequests === paths.length);
      expect(waitingChecks).to.have.length(expectedChecks);
      waitingChecks.at(-1)?.();
      for (const { status } of await responsesPromise) expect(status).to.equal(200);
    }
  });
});
