import { expect } from "chai";
import pg from "pg";
import { awaitPipelined } from "../../../shared/postgres/pool.ts";
import { getTestServers } from "../../support/stack.ts";

describe("statements that are sent together", () => {
  let client: pg.Client;

  before(async () => {
    client = new pg.Client({ connectionString: (await getTestServers()).adminDatabaseUrl, pipeline: true });
    await client.connect();
  });
  after(() => client.end());

  it("the results are in the given order", async () => {
    const selectNumber = async (number: number) => (await client.query(`SELECT ${number} AS number`)).rows[0].number;
    expect(await awaitPipelined([selectNumber(1), "a value", selectNumber(2)])).to.deep.equal([1, "a value", 2]);
  });

  it("in a transaction, the error of the failed statement is thrown, and the refusals of the later statements are ignored", async () => {
    const beginPromise = client.query("BEGIN");
    const failedPromise = client.query("SELECT 1 / 0");
    const refusedPromise = client.query("SELECT 1");
    const error = await awaitPipelined([refusedPromise, failedPromise, beginPromise]).catch((reason: Error) => reason);
    await client.query("ROLLBACK");
    expect(error).to.have.property("message", "division by zero");
  });
});
