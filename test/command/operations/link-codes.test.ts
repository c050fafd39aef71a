import { randomBytes } from "node:crypto";
import { expect } from "chai";
import { createLinkCodes } from "../../../command/operations/link-codes.ts";

const createKey = () => randomBytes(32).toString("base64");

describe("link codes", () => {
  it("a code has 60 bits in three groups that can be read aloud", () => {
    const linkCodes = createLinkCodes({ current: "a", keys: { a: createKey() } });
    const codes = Array.from({ length: 1_000 }, () => linkCodes.generate().code);
    for (const code of codes) expect(code).to.match(/^([0-9A-HJKMNP-TV-Z]{4}-){2}[0-9A-HJKMNP-TV-Z]{4}$/);
    expect(new Set(codes)).to.have.property("size", 1_000);
  });

  it("a code gives the same id in any case, without hyphens, with spaces, and with similar letters", () => {
    const linkCodes = createLinkCodes({ current: "a", keys: { a: createKey() } });
    const [expected] = linkCodes.listLinkIds("01AB-CD01-EF01");
    const separators = ["\u2010", "\u2011", "\u2013", "\u2212", "\u00ad", "\u200b", "_", ".", "\u3000"];
    const copied = separators.map((separator) => `01AB${separator}CD01${separator}EF01`);
    const fullWidth = "\uff10\uff11\uff21\uff22\uff0d\uff43\uff44\uff10\uff11\uff0dEF01";
    for (const typed of ["01abcd01ef01", " 01ab cd01 ef01 ", "OIAB-CDOL-EFoi", ...copied, fullWidth])
      expect(linkCodes.listLinkIds(typed)).to.eql([expected]);
    expect(linkCodes.listLinkIds("01AB-CD01-EF02")).to.not.include(expected);
  });

  it("a code stays valid while its master key is configured, and its id does not depend on the code alone", () => {
    const [oldKey, newKey] = [createKey(), createKey()];
    const { code, linkId } = createLinkCodes({ current: "old", keys: { old: oldKey } }).generate();
    const rotated = createLinkCodes({ current: "new", keys: { old: oldKey, new: newKey } });
    expect(rotated.listLinkIds(code)).to.include(linkId);
    expect(createLinkCodes({ current: "new", keys: { new: newKey } }).listLinkIds(code)).to.not.include(linkId);
  });
});
