import { expect } from "chai";

/** Fails if a response allows browsers to guess its content type. */
export function requireNoSniffing({ status, url, headers }: Response): void {
  expect(headers.get("X-Content-Type-Options"), `${status} of ${url}`).to.equal("nosniff");
}
