import { expect } from "chai";
import { formatReadyMessage } from "../../../deploy/local/ready-message.ts";

describe("the message of a ready stack", () => {
  it("the message names external servers without their user and password", () => {
    const message = formatReadyMessage(
      {
        gatewayUrl: "http://127.0.0.1:8080",
        eventstoreUrl: "esdb://clinic:se@cret@a:2113,b:2113?tls=true",
        natsUrl: "nats://clinic:secret@nats.example:4222",
        databaseUrl: "postgres://clinic:secret@db.example:5432/clinic",
        logFiles: "/data/logs/*.log",
        stackFile: "/data/stack.json",
        auditorCredential: "aud_1",
      },
      1_250,
    );
    expect(message).to.contain("\n  event log     esdb://a:2113,b:2113?tls=true\n");
    expect(message).to.contain("\n  Postgres      db.example:5432/clinic\n");
    expect(message).to.contain("\n  NATS          nats://nats.example:4222\n");
    expect(message).to.contain("\n  logs          /data/logs/*.log\n");
    expect(message).not.to.match(/secret|cret@|clinic:/);
  });
});
