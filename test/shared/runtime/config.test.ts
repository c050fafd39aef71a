import { readFile } from "node:fs/promises";
import { expect } from "chai";
import { z } from "zod";
import { startAudit } from "../../../command/audit/start.ts";
import { startCommand } from "../../../command/start.ts";
import { startProjection } from "../../../projection/start.ts";
import { startQueryApi } from "../../../query-api/start.ts";
import { ConfigError, readConfig, settings } from "../../../shared/runtime/config.ts";

describe("configuration", () => {
  it("a missing setting has the default value", () => {
    const config = readConfig(["HOST", "HEADER_BRAND", "WEBHOOK_RETRY_SCHEDULE"], {});
    expect(config).to.deep.equal({
      HOST: "127.0.0.1",
      HEADER_BRAND: "SERVICE",
      WEBHOOK_RETRY_SCHEDULE: [5, 30, 300, 1800, 7200, 18_000, 36_000],
    });
  });

  it("the configuration error names every missing or invalid setting in one line, without values", () => {
    const env = { PORT: "99999", DATABASE_URL: "mysql://user:hunter2@host/db" };
    expect(() => readConfig(["PORT", "DATABASE_URL", "NATS_URL"], env))
      .to.throw(ConfigError)
      .with.property("message")
      .that.matches(/PORT .*; DATABASE_URL must be a URL like postgres:.*; NATS_URL is missing/)
      .and.not.contains("hunter2")
      .and.not.contains("\n");
  });

  for (const [name, value] of [
    ["PORT", "80a"],
    ["EVENTSTORE_URL", "http://127.0.0.1:2113"],
    ["EVENTSTORE_URL", "esdb://a:2113,"],
    ["EVENTSTORE_URL", "esdb+discover://a:2113,b:2113"],
    ["EVENTSTORE_URL", "esdb://admin:secret@a:2113?tlsVerifyCert=false"],
    ["EVENTSTORE_URL", "esdb://admin:secret@a:2113?tls=false&speed=high"],
    ["HEADER_BRAND", "X Y"],
    ["PORTAL_COOKIE_NAME", "session"],
    ["TOKEN_SIGNING_KEYS", "{"],
    ["TOKEN_SIGNING_KEYS", '{"keys":[]}'],
    ["WEBHOOK_SECRET_KEYS", '{"current":"a","keys":{"b":"AAAA"}}'],
    ["WEBHOOK_SECRET_KEYS", '{"current":"constructor","keys":{}}'],
    ["WEBHOOK_SECRET_KEYS", '{"current":"a","keys":{"a":"AAAA"}}'],
    ["WEBHOOK_RETRY_SCHEDULE", "5,x"],
    ["ROLES", "projectors,cook"],
    ["ROLES", "relay,relay"],
    ["ROLES", ""],
  ] as const) {
    it(`the configuration refuses ${name}=${value}`, () => {
      expect(() => readConfig([name], { [name]: value })).to.throw(ConfigError, name);
    });
  }

  const readPage = () => readFile(new URL("../../../CONFIGURATION.md", import.meta.url), "utf8");

  it("CONFIGURATION.md lists every setting with its default and description", async () => {
    const page = await readPage();
    const namedSettings = [...page.matchAll(/^\| `([A-Z_]+)` \| /gm)].map(([, name]) => name);
    expect(namedSettings).to.have.members(Object.keys(settings));
    for (const [name, schema] of Object.entries(settings)) {
      const { default: value, description } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
      const defaultCell = value === undefined ? "" : `\`${value}\``;
      expect(page.split("\n")).to.include(`| \`${name}\` | ${defaultCell} | ${description} |`);
    }
  });

  for (const [service, start] of Object.entries({
    command: startCommand,
    audit: startAudit,
    projection: startProjection,
    "query-api": startQueryApi,
  })) {
    it(`CONFIGURATION.md lists exactly the settings that ${service} reads`, async () => {
      const readSettingNames = new Set<string>();
      const emptyEnv = new Proxy({} as NodeJS.ProcessEnv, {
        get: (_, name) => void (typeof name === "string" && readSettingNames.add(name)),
      });
      const error = await start(emptyEnv).catch((reason: unknown) => reason);
      expect(error).to.be.instanceOf(ConfigError);
      const row = (await readPage()).split("\n").find((line) => line.startsWith(`| \`${service}\` |`)) ?? "";
      const listedNames = [...row.matchAll(/`([A-Z_]+)(…?)`/g)].flatMap(([, name = "", ellipsis]) =>
        ellipsis ? Object.keys(settings).filter((setting) => setting.startsWith(name)) : [name],
      );
      expect(listedNames).to.have.members([...readSettingNames]);
    });
  }
});
