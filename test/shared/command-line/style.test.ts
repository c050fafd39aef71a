import { expect } from "chai";
import { createStyle } from "../../../shared/command-line/style.ts";

describe("the styles of a terminal", () => {
  const columns = 80;

  it("only a terminal without NO_COLOR gets colours", () => {
    expect(createStyle({ env: {}, columns }).bold("x")).to.equal("\x1b[1mx\x1b[22m");
    expect(createStyle({ env: {}, columns: undefined }).bold("x"), "a pipe").to.equal("x");
    expect(createStyle({ env: { NO_COLOR: "1" }, columns }).red("x")).to.equal("x");
    expect(createStyle({ env: { TERM: "dumb" }, columns }).green("x")).to.equal("x");
  });
});
