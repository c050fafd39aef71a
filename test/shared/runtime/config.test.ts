import fs from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { expect } from "chai";
import { startAuditService } from "../../../command/audit/start.ts";
import { startCommandService } from "../../../command/start.ts";
import { startProjection } from "../../../projection/start.ts";
import { startQueryApi } from "../../../query-api/start.ts";
import {
  ConfigError,
  isSecret,
  loadSecretFiles,
  readConfig,
  type Settings,
  settings,
} from "../../../shared/runtime/config.ts";
import { listReadSettings } from "../../support/setting-names.ts";
import { makeTestRoot } from "../../support/stack.ts";

describe("configuration", () => {
  it("a missing setting has the default value", () => {
    const config = readConfig(["HOST", "HEADER_BRAND", "WEBHOOK_RETRY_SCHEDULE"], {});
    expect(config).to.deep.equal({
      HOST: "127.0.0.1",
      HEADER_BRAND: "SERVICE",
      WEBHOOK_RETRY_SCHEDULE: [5, 30, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400],
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
    ["EVENTSTORE_URL", "esdb://admin:pass?secret@a:2113"],
    ["HEADER_BRAND", "X Y"],
    ["PORTAL_COOKIE_NAME", "session"],
    ["TOKEN_SIGNING_KEYS", "{"],
    ["TOKEN_SIGNING_KEYS", '{"keys":[]}'],
    ["WEBHOOK_SECRET_KEYS", '{"current":"a","keys":{"b":"AAAA"}}'],
    ["WEBHOOK_SECRET_KEYS", '{"current":"constructor","keys":{}}'],
    ["WEBHOOK_SECRET_KEYS", '{"current":"a","keys":{"a":"AAAA"}}'],
    ["WEBHOOK_RETRY_SCHEDULE", "5,x"],
    ["DEPRECATED_PATHS", "/sandbox/v1/x=2027-13-01/2028-01-01"],
    ["ROLES", "projectors,cook"],
    ["ROLES", "relay,relay"],
    ["ROLES", ""],
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"],
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:hunter2@collector:4318"],
    ["WEBHOOK_DNS_SERVERS", "resolver:53"],
    ["WEBHOOK_DNS_SERVERS", "192.0.2.53:53,"],
    ["WEBHOOK_EGRESS_PROXY_URL", "proxy:3128"],
    ["WEBHOOK_EGRESS_PROXY_URL", "socks5://user:hunter2@proxy:1080"],
    ["WEBHOOK_EGRESS_PROXY_URL", "http://user:hunter2%@proxy:3128"],
    ["WEBHOOK_EGRESS_PROXY_URL", "http://user:hunter2@proxy:3128/path"],
    ["OTEL_EXPORTER_OTLP_HEADERS", "authorization"],
    ["OTEL_EXPORTER_OTLP_HEADERS", "authorization=%"],
    ["OTEL_TRACES_SAMPLER", "always_on"],
    ["OTEL_TRACES_SAMPLER_ARG", "1.5"],
  ] as const)
    it(`the configuration refuses ${name}=${value}`, () => {
      expect(() => readConfig([name], { [name]: value }))
        .to.throw(ConfigError, name)
        .with.property("message")
        .that.does.not.match(/secret|hunter2/);
    });

  const readPage = () => readFile(new URL("../../../CONFIGURATION.md", import.meta.url), "utf8");

  it("the URL of a standby must name one host", () => {
    const read = (url: string) => () => readConfig(["DATABASE_READ_URL"], { DATABASE_READ_URL: url });
    expect(read("postgres://me:a,b@one/clinic")).not.to.throw();
    expect(read("postgres://me:secret@one,two/clinic")).to.throw("DATABASE_READ_URL must name one host");
  });

  it("every setting that may contain a secret can come from a file", () => {
    const secretNames = (Object.keys(settings) as (keyof Settings)[]).filter(isSecret);
    const suspectNames = Object.keys(settings).filter(
      (name) =>
        /SECRET|PASSWORD|CREDENTIAL|SEED|SIGNING_KEYS|DATA_KEYS|OTLP_HEADERS|(EVENTSTORE|DATABASE|READ|NATS|TARGET|PROXY)_URL/.test(
          name,
        ) && !name.endsWith("_FILE"),
    );
    expect(secretNames).to.have.members(suspectNames);
    // A variable with the name of a secret's file must not be a setting of its own.
    expect(secretNames.filter((name) => `${name}_FILE` in settings)).to.deep.equal([]);
  });

  describe("a secret in a file", () => {
    const folder = makeTestRoot();
    const writeSecret = (text: string) => {
      const file = path.join(folder, "secret");
      fs.writeFileSync(file, text);
      return file;
    };
    const url = "postgres://user:hunter2@host/db";

    for (const ending of ["", "\n", "\r\n"])
      it(`a file provides a secret without its final newline: ${JSON.stringify(ending)}`, () => {
        const env = { DATABASE_URL_FILE: writeSecret(`${url}${ending}`), HOST: "::1" };
        expect(readConfig(["DATABASE_URL"], env)).to.deep.equal({ DATABASE_URL: url });
        expect(loadSecretFiles(env)).to.deep.equal({ DATABASE_URL: url, HOST: "::1" });
      });

    const expectRefusal = (env: Record<string, string>, message: string) => {
      for (const read of [() => readConfig(["DATABASE_URL"], env), () => loadSecretFiles(env)])
        expect(read).to.throw(ConfigError).with.property("message", `settings: ${message}`);
    };

    it("a secret that is set both directly and by a file is refused", () => {
      expectRefusal(
        { DATABASE_URL: url, DATABASE_URL_FILE: writeSecret(url) },
        "DATABASE_URL and DATABASE_URL_FILE are both set, but only one may be",
      );
    });

    it("an unreadable file is refused without its name, which may be the secret", () => {
      expectRefusal({ DATABASE_URL_FILE: url }, "DATABASE_URL_FILE names a file that cannot be read (ENOENT)");
      expectRefusal({ DATABASE_URL_FILE: folder }, "DATABASE_URL_FILE names a file that cannot be read (EISDIR)");
    });

    it("an invalid secret in a file is refused without its value", () => {
      expect(() => readConfig(["DATABASE_URL"], { DATABASE_URL_FILE: writeSecret("mysql://u:hunter2@h/db") }))
        .to.throw(ConfigError, "DATABASE_URL must be")
        .with.property("message")
        .that.does.not.contain("hunter2");
    });
  });

  for (const [service, start] of Object.entries({
    command: startCommandService,
    audit: startAuditService,
    projection: startProjection,
    "query-api": startQueryApi,
  })) {
    it(`CONFIGURATION.md lists exactly the settings that ${service} reads`, async () => {
      const readSettingNames = await listReadSettings(start);
      const row = (await readPage()).split("\n").find((line) => line.startsWith(`| \`${service}\` |`)) ?? "";
      const listedNames = [...row.matchAll(/`([A-Z_]+)(…?)`/g)].flatMap(([, name = "", ellipsis]) =>
        ellipsis ? Object.keys(settings).filter((setting) => setting.startsWith(name)) : [name],
      );
      expect(listedNames).to.have.members(readSettingNames);
    });
  }
});
