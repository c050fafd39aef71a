import { reachEventStore } from "../../../shared/eventstore/connect.ts";
import { connectToLog } from "../../support/connections.ts";
import { getTestServers } from "../../support/stack.ts";

/** All variables in which gRPC looks for a proxy. */
const PROXY_VARIABLES = ["grpc_proxy", "https_proxy", "http_proxy"];

/** Nothing listens on this port. */
const DEAD_PROXY = "http://127.0.0.1:9";

describe("a proxy in the environment", () => {
  afterEach(() => {
    for (const name of [...PROXY_VARIABLES, "no_grpc_proxy"]) delete process.env[name];
  });

  for (const variable of PROXY_VARIABLES)
    for (const discovers of [false, true])
      it(`the client connects directly to ${discovers ? "the discovered nodes of a cluster" : "a node"} although ${variable} names a proxy`, async () => {
        process.env[variable] = DEAD_PROXY;
        const { eventstoreUrl } = await getTestServers();
        const client = connectToLog(discovers ? eventstoreUrl.replace("esdb://", "esdb+discover://") : eventstoreUrl);
        await reachEventStore(client, 15_000);
      });
});
