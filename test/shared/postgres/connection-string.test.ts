import { expect } from "chai";
import {
  ConnectionStringError,
  formatConnectionString,
  getDatabaseName,
  listServerUrls,
  parseConnectionString,
} from "../../../shared/postgres/connection-string.ts";

describe("connection strings of Postgres", () => {
  it("a connection string with several hosts has one URL per server", () => {
    const text =
      "postgres://u:p%40w@a:5432,[::1],c.example:6543/clinic?target_session_attrs=read-write&sslcert=%2Fc.pem";
    const connectionString = parseConnectionString(text);
    expect(connectionString.serverKind).to.equal("read-write");
    expect(getDatabaseName(connectionString)).to.equal("clinic");
    expect(listServerUrls(connectionString)).to.deep.equal([
      "postgres://u:p%40w@a:5432/clinic?sslcert=%2Fc.pem",
      "postgres://u:p%40w@[::1]/clinic?sslcert=%2Fc.pem",
      "postgres://u:p%40w@c.example:6543/clinic?sslcert=%2Fc.pem",
    ]);
    expect(parseConnectionString(formatConnectionString(connectionString))).to.deep.equal(connectionString);
  });

  for (const text of [
    "postgres://user:password@host/clinic",
    "postgresql://user@127.0.0.1:5432/clinic",
    "postgres:///clinic?host=%2Frun%2Fpostgresql",
    "postgres://user:p@ss@host/clinic",
    "postgres://%2Frun%2Fpostgresql/clinic",
    "postgres://host",
  ])
    it(`the connection string ${text} is accepted`, () => {
      expect(formatConnectionString(parseConnectionString(text)).startsWith(text)).to.equal(true);
    });

  for (const mode of ["require", "verify-ca", "verify-full"])
    it(`sslmode=${mode} verifies certificate and host name`, () => {
      const [url] = listServerUrls(parseConnectionString(`postgres://u:hunter2@a/clinic?sslmode=${mode}`));
      expect(url).to.equal("postgres://u:hunter2@a/clinic?sslmode=verify-full");
    });

  for (const [text, message] of [
    ["mysql://u:hunter2@a/clinic", /^must be a URL like postgres:/],
    ["postgres://u:hunter2@a,/clinic", /^must name each host/],
    ["postgres://u:hunter2@a:x,b/clinic", /^must name each host/],
    ["postgres://u:hunter2@/clinic", /^must name each host/],
    ["postgres://u:hunter2@a:99999,b/clinic", /^must have valid ports/],
    ["postgres://u:hunter2%@a,b/clinic", /valid percent-encoding/],
    ["postgres://u:1#hunter2@a,b/clinic", /percent-encoded/],
    ["postgres://u:1/hunter2@a,b/clinic", /percent-encoded/],
    ["postgres://u:1?hunter2=x@a,b/clinic", /percent-encoded/],
    ["postgres://u:hunter2@a,b/clinic?target_session_attrs=write", /target_session_attrs: any, read-write/],
    ["postgres://u:hunter2@a,b/clinic?sslmode=prefer", /sslmode: disable/],
    ["postgres://u:hunter2@a,b/clinic?connect_timeout=3", /the option connect_timeout, which is not supported/],
    ["postgres://u:hunter2@a,b/clinic?host=c", /before the path/],
    ["postgres:///clinic?host=a,b", /before the path/],
  ] as const)
    it(`the connection string ${text} is refused without naming the password`, () => {
      expect(() => parseConnectionString(text))
        .to.throw(ConnectionStringError)
        .with.property("message")
        .that.matches(message)
        .and.not.contains("hunter2")
        .and.not.contains("\n");
    });
});
