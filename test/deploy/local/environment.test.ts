import { expect } from "chai";
import { readPorts } from "../../../deploy/local/setup/ports.ts";
import { buildServiceEnvironments } from "../../../deploy/local/stack/environment.ts";
import { readConfig } from "../../../shared/runtime/config.ts";

const signingKey = { kty: "OKP", crv: "Ed25519", kid: "k", d: "x", x: "y" };

function buildEnvironments(inheritedEnv: NodeJS.ProcessEnv = {}) {
  return buildServiceEnvironments({
    ports: readPorts(inheritedEnv),
    secrets: {
      postgres: { superuser: "super-password", projection: "a", command: "b", query: "c", audit: "d" },
      portalJwtSecret: "s".repeat(64),
      tokenSigningKeys: JSON.stringify({ keys: [signingKey] }),
      auditSigningKeys: JSON.stringify({ keys: [signingKey] }),
      personalDataKeys: JSON.stringify({ current: "k", keys: { k: Buffer.alloc(32).toString("base64") } }),
      webhookSigningKeys: JSON.stringify({ keys: [signingKey] }),
      webhookSecretKeys: JSON.stringify({ current: "k", keys: { k: Buffer.alloc(32).toString("base64") } }),
    },
    servers: {
      eventstoreUrl: "esdb://127.0.0.1:8113?tls=false",
      natsUrl: "nats://127.0.0.1:8422",
      databaseUrls: {
        projection: "postgres://owner@127.0.0.1/clinic",
        command: "postgres://local_command@127.0.0.1/clinic",
        query: "postgres://local_query@127.0.0.1/clinic",
        audit: "postgres://local_audit@127.0.0.1/clinic",
      },
    },
    inheritedEnv,
    overrides: { projection: { WEBHOOK_RETRY_SCHEDULE: "0.1,0.1" } },
  });
}

describe("buildServiceEnvironments", () => {
  it("each service of the local stack gets valid settings and its own database role", () => {
    const { command, queryApi, projection } = buildEnvironments();
    expect(readConfig(["DATABASE_URL", "TOKEN_SIGNING_KEYS", "TRUST_PROXY", "PORT"], command)).to.include({
      DATABASE_URL: "postgres://local_command@127.0.0.1/clinic",
      TRUST_PROXY: true,
      PORT: 8081,
    });
    expect(readConfig(["DATABASE_URL", "PORTAL_COOKIE_NAME", "TOKEN_JWKS_URL", "PORT"], queryApi)).to.eql({
      DATABASE_URL: "postgres://local_query@127.0.0.1/clinic",
      PORTAL_COOKIE_NAME: "sb-local-auth-token",
      TOKEN_JWKS_URL: "http://127.0.0.1:8081/.well-known/jwks.json",
      PORT: 8082,
    });
    expect(readConfig(["WEBHOOK_RETRY_SCHEDULE", "NATS_URL"], projection).WEBHOOK_RETRY_SCHEDULE).to.eql([0.1, 0.1]);
  });

  it("services of the local stack get only the secrets that they need", () => {
    const { command, queryApi, gateway } = buildEnvironments({ DATABASE_URL: "postgres://admin:super-password@h/d" });
    expect(queryApi).to.not.have.any.keys(
      ...["TOKEN_SIGNING_KEYS", "WEBHOOK_SECRET_KEYS", "WEBHOOK_SIGNING_KEYS", "PERSONAL_DATA_KEYS", "NATS_URL"],
    );
    expect(command).to.not.have.any.keys("PORTAL_JWT_SECRET", "NATS_URL");
    expect(gateway).to.not.have.any.keys("DATABASE_URL", "PORTAL_JWT_SECRET", "TOKEN_SIGNING_KEYS");
    expect(JSON.stringify(buildEnvironments({ DATABASE_URL: "x" }))).to.not.include("super-password");
  });

  it("only the projection service gets the settings of an external NATS server", () => {
    const natsSettings = { NATS_URL: "nats://127.0.0.1:8422", NATS_CREDENTIALS: "c", NATS_CA_FILE: "/ca.pem" };
    const { projection, command } = buildEnvironments(natsSettings);
    expect(projection).to.include(natsSettings);
    expect(command).to.not.have.any.keys(...Object.keys(natsSettings));
    const embedded = buildEnvironments({ NATS_CA_FILE: "/ca.pem" });
    expect(embedded.projection).to.not.have.property("NATS_CA_FILE");
  });

  it("every service of the local stack inherits the user's environment, except the variables of npm", () => {
    const { command, gateway } = buildEnvironments({ LOG_LEVEL: "debug", GATEWAY_PORT: "9000", npm_config_x: "1" });
    expect([command.LOG_LEVEL, gateway.PORT, command.TOKEN_ISSUER]).to.eql(["debug", "9000", "http://127.0.0.1:9000"]);
    expect(command).to.not.have.property("npm_config_x");
  });
});

describe("readPorts", () => {
  it("readPorts refuses invalid and duplicate ports with an error that names the variables", () => {
    expect(() => readPorts({ NATS_PORT: "http" })).to.throw("NATS_PORT must be a port between 1 and 65535");
    expect(() => readPorts({ NATS_PORT: "8080" })).to.throw("GATEWAY_PORT and NATS_PORT are both 8080");
  });
});
