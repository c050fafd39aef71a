import { expect } from "chai";
import { MAX_ENDPOINTS } from "../../../command/operations/endpoint-quota.ts";
import {
  createPartnerWorld,
  type PartnerResponse,
  type PartnerWorld,
  sendRequest,
  startTestCommand,
  type TestCommand,
} from "../../support/partner.ts";

const VALID_ENDPOINT = { url: "http://127.0.0.1:9/hooks", events: ["appointment.created"] };

describe("concurrent changes of one object", function () {
  this.timeout(60_000);
  /** Two services on one event log, like two processes. */
  let both: TestCommand[];
  let world: PartnerWorld;

  before(async () => {
    const first = await startTestCommand();
    const TOKEN_SIGNING_KEYS = JSON.stringify({ keys: [first.signingKey] });
    both = [first, await startTestCommand({ TOKEN_SIGNING_KEYS })];
  });
  after(() => Promise.all(both.map((command) => command.stop())));
  beforeEach(async () => {
    world = await createPartnerWorld(both[0]!, "sandbox");
  });

  const post = (command: TestCommand, path = "", body?: unknown, as = world) =>
    sendRequest("POST", `${command.url}/sandbox/v1/webhook-endpoints${path}`, as.headers, body);
  const atOnce = (count: number, over: TestCommand[], path?: string, body?: unknown) =>
    Promise.all(Array.from({ length: count }, (_, n) => post(over[n % over.length]!, path, body)));
  const tally = (answers: PartnerResponse[]) => {
    const counts: Record<string, number> = {};
    for (const { status, body } of answers) {
      const name = `${status} ${body.error ?? ""}`.trim();
      counts[name] = (counts[name] ?? 0) + 1;
    }
    return counts;
  };
  const register = async () => (await post(both[0]!, "", VALID_ENDPOINT)).body.endpoint.id as string;

  for (const processes of [1, 2]) {
    it(`of 70 concurrent endpoint registrations over ${processes} process(es), 50 succeed and 20 are refused`, async () => {
      const counts = tally(await atOnce(70, both.slice(0, processes), "", VALID_ENDPOINT));
      expect(counts).to.deep.equal({ "201": MAX_ENDPOINTS, "409 webhook_endpoint_limit_reached": 20 });
    });

    it(`70 concurrent tests of an endpoint over ${processes} process(es) create 70 deliveries`, async () => {
      const answers = await atOnce(70, both.slice(0, processes), `/${await register()}/test`);
      expect(tally(answers)).to.deep.equal({ "202": 70 });
      expect(new Set(answers.map(({ body }) => body.delivery.id)).size).to.equal(70);
    });

    it(`concurrent secret rotations over ${processes} process(es) succeed or get 409 concurrent_rotation`, async () => {
      const counts = tally(await atOnce(20, both.slice(0, processes), `/${await register()}/rotate-secret`));
      const { 200: rotated = 0, "409 concurrent_rotation": lost = 0 } = counts;
      expect(rotated).to.be.above(0);
      expect(rotated + lost).to.equal(20);
    });
  }

  it("an endpoint registration does not wait for 70 registrations of another application", async () => {
    const stranger = await createPartnerWorld(both[0]!, "sandbox");
    const finished: string[] = [];
    const flood = atOnce(70, both, "", VALID_ENDPOINT).then((answers) => {
      finished.push("flood");
      return answers;
    });
    const { status } = await post(both[0]!, "", VALID_ENDPOINT, stranger);
    finished.push("stranger");
    expect([status, finished]).to.deep.equal([201, ["stranger"]]);
    expect(Object.keys(tally(await flood))).to.have.members(["201", "409 webhook_endpoint_limit_reached"]);
  });
});
