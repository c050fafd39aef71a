import { expect } from "chai";

/** Fails if an answer lets browsers guess its type. */
export function requireNoSniffing({ status, url, headers }: Response): void {
  expect(headers.get("X-Content-Type-Options"), `${status} of ${url}`).to.equal("nosniff");
}
