import fs from "node:fs";
import { expect } from "chai";
import pg from "pg";
import { DifferentLogError } from "../../../projection/checkpoints/same-log.ts";
import { RowError } from "../../../projection/engine/rows.ts";
import { LeadershipLostError, ProjectionError } from "../../../projection/roles/role.ts";
import { EventSchemaError } from "../../../shared/domain/events/stored-event.ts";
import { LogUnavailableError } from "../../../shared/eventstore/log.ts";
import { DataKeyError, KeyStoreUnavailableError } from "../../../shared/personal-data/data-keys.ts";
import { classify, type FailureKind, isPostgresUnavailable } from "../../../shared/runtime/failures.ts";

const createDatabaseError = (code: string) => Object.assign(new pg.DatabaseError("words", 5, "error"), { code });

describe("the classification of failures", () => {
  const sqlStates: Record<FailureKind, string[]> = {
    server: "08006 25006 25P03 28P01 40001 40P01 53100 53300 55P03 57P01 57P03 XX000".split(" "),
    slow: ["57014"],
    item: "22001 22P02 23505 54000".split(" "),
    stop: "0A000 3F000 42501 42P01 42703".split(" "),
  };
  for (const [kind, codes] of Object.entries(sqlStates))
    it(`the SQLSTATEs ${codes.join(", ")} are of the kind "${kind}"`, () => {
      for (const code of codes) expect(classify(createDatabaseError(code)), code).to.equal(kind);
    });

  it("each error of the service has a kind, and an unknown error counts as a failure of a server", () => {
    const position = { stream: "clinic-1", revision: 0n, position: 0n, type: "X" };
    const errors: Record<FailureKind, unknown[]> = {
      server: [new LogUnavailableError(), new KeyStoreUnavailableError(), new TypeError(), "text", undefined],
      slow: [],
      item: [new EventSchemaError(), new RowError(), new ProjectionError("reason", position, undefined)],
      stop: [new DataKeyError(), new DifferentLogError("", ""), new LeadershipLostError()],
    };
    for (const [kind, errorsOfKind] of Object.entries(errors))
      for (const error of errorsOfKind) expect(classify(error), String(error)).to.equal(kind);
  });

  it("Postgres is unavailable if it is overloaded or too slow, but not if it refuses a value, a statement or a login", () => {
    for (const code of [...sqlStates.server, ...sqlStates.slow])
      expect(isPostgresUnavailable(createDatabaseError(code)), code).to.equal(!["28P01", "XX000"].includes(code));
    expect(isPostgresUnavailable(new KeyStoreUnavailableError())).to.equal(true);
    for (const code of [...sqlStates.item, ...sqlStates.stop])
      expect(isPostgresUnavailable(createDatabaseError(code)), code).to.equal(false);
  });
});

describe("the code of the service", () => {
  const FILE = "shared/runtime/failures.ts";
  const readFiles = (...folders: string[]) =>
    folders
      .flatMap((folder) => fs.readdirSync(folder, { recursive: true }).map((name) => `${folder}/${name}`))
      .filter((name) => name.endsWith(".ts") && name !== FILE)
      .map((name) => ({ name, text: fs.readFileSync(name, "utf8") }));
  const findMatches = (pattern: RegExp, ...folders: string[]) =>
    readFiles(...folders).flatMap(({ name, text }) => [...text.matchAll(pattern)].map(([match]) => `${name} ${match}`));

  it(`contains SQLSTATEs only in ${FILE}`, () => {
    const sqlState = /["'`/^(|](?:0[0A8]|2[0-9BDF]|3[489BDF]|4[024]|5[34578]|XX)[0-9A-Z]{3}(?=["'`/$)|])/g;
    expect(fs.readFileSync(FILE, "utf8")).to.match(sqlState);
    expect(findMatches(sqlState, "bin", "command", "projection", "query-api", "shared")).to.deep.equal([]);
  });

  it("contains gRPC codes only in shared/eventstore/log.ts", () => {
    const grpcCode = /\b(?:c|getC)ode\b[^;\n]{0,10} === \d{1,2}\b|\[\d[\d, ]*\]\.includes\([^\n]*\b(?:c|getC)ode/g;
    /code\b[^;\n]{0,30}(?:===|includes\()[^;\n]{0,12}\b\d{1,2}\b|\[\d[\d, ]*\]\.includes\([^\n]*code/gi;
    const matches = findMatches(grpcCode, "bin", "command", "projection", "query-api", "shared");
    expect([...new Set(matches.map((match) => match.split(" ")[0]))]).to.deep.equal(["shared/eventstore/log.ts"]);
  });

  it(`classifies failures of servers in loops of the projection service only in ${FILE}`, () => {
    const check =
      /instanceof (?:AggregateError|CommandError|KeyStoreUnavailableError|LogUnavailableError|UnavailableError)\b|isCommandError|createBackoff\(/g;
    expect(findMatches(check, "projection")).to.deep.equal([]);
  });
});
