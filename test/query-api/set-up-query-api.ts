import { startTestQueryApi, type TestQueryApi } from "../support/query-api.ts";

/**
 * Starts a query API before the tests of a suite and stops it afterwards. The returned object is empty until mocha has
 * run the `before` hook.
 */
export function setUpQueryApi(): TestQueryApi {
  const api = {} as TestQueryApi;
  before(async () => {
    Object.assign(api, await startTestQueryApi());
  });
  after(() => api.stop());
  return api;
}
