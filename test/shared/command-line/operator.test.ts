import os from "node:os";
import { expect } from "chai";
import { InputError } from "../../../shared/command-line/failure.ts";
import { requireOperator } from "../../../shared/command-line/operator.ts";
import { getTlsPath } from "../../support/postgres-pair.ts";

describe("the identity of an operator", () => {
  const certificate = encodeURIComponent(getTlsPath("database-client.cert.pem"));
  const cases: [string, string, string | undefined, object][] = [
    ["the given name without a user", "esdb://a:2113,b:2113?tls=false", "Ada", { id: "Ada" }],
    ["the user of the connection string", "esdb://ada:secret@a:2113,b:2113", "Ada", { id: "ada", note: "Ada" }],
    [
      "the given name without TLS, as the client does not log in",
      "esdb://ada:secret@a?TLS=False",
      "Ada",
      { id: "Ada" },
    ],
    ["a decoded user", "kurrentdb+discover://ada%20b:p%3Aw@a", "Ada", { id: "ada b", note: "Ada" }],
    ["no note that repeats the user", "esdb://ada:secret@a:2113", "ada", { id: "ada" }],
    [
      "the user of a certificate",
      `esdb://a?tls=true&userCertFile=${certificate}&userKeyFile=k`,
      "Ada",
      { id: "clinic", note: "Ada" },
    ],
    ["the name of the process's user", "esdb://a:2113", undefined, { id: os.userInfo().username }],
    ["that name as a note", "esdb://ada:secret@a:2113", undefined, { id: "ada", note: os.userInfo().username }],
  ];
  for (const [title, url, name, actor] of cases)
    it(`the recorded actor is ${title}`, () => {
      expect(requireOperator({ EVENTSTORE_URL: url }, name)).to.deep.equal({ type: "operator", ...actor });
    });

  for (const name of ["", "x".repeat(201)])
    it(`a name of ${name.length} characters is refused, also as a note`, () => {
      for (const url of ["esdb://a:2113", "esdb://ada:secret@a:2113"])
        expect(() => requireOperator({ EVENTSTORE_URL: url }, name)).to.throw(
          InputError,
          "--actor must have 1 to 200 characters",
        );
    });
});
