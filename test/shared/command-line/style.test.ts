import { expect } from "chai";
import { createStyle, renderLine } from "../../../shared/command-line/style.ts";

describe("the styles of a terminal", () => {
  const columns = 80;

  it("only a terminal without NO_COLOR gets colours", () => {
    expect(renderLine(createStyle({ env: {}, columns }).bold("x"))).to.equal("\x1b[1mx\x1b[22m");
    expect(createStyle({ env: {}, columns: undefined }).bold("x"), "a pipe").to.equal("x");
    expect(createStyle({ env: { NO_COLOR: "1" }, columns }).red("x")).to.equal("x");
    expect(createStyle({ env: { TERM: "dumb" }, columns }).green("x")).to.equal("x");
  });

  it("control characters of a text cannot reach the terminal, not even as colours", () => {
    const { red } = createStyle({ env: {}, columns });
    const text = "\x1b[31m \u009b2J \u202e \u061c\n";
    expect(renderLine(red(text))).to.equal("\x1b[31m\\u001b[31m \\u009b2J \\u202e \\u061c\n\x1b[39m");
  });
});
