import { expect } from "chai";
import { parseStoredEvent } from "../../../shared/domain/events/stored-event.ts";
import { checkTraceparent, formatTraceparent, parseTraceparent } from "../../../shared/tracing/span.ts";
import { createStoredMetadata } from "../../support/stored-metadata.ts";

const VALID = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

const INVALID_VALUES = [
  undefined,
  "",
  "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  "00-00000000000000000000000000000000-b7ad6b7169203331-01",
  "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
  "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
  `${VALID}-more`,
  `${VALID}\n`,
  `${VALID}, ${VALID}`,
  [VALID],
];

describe("the W3C trace context", () => {
  it("a valid trace context is accepted, and formatting its parts restores it", () => {
    expect(checkTraceparent(VALID)).to.equal(VALID);
    expect(formatTraceparent(parseTraceparent(VALID))).to.equal(VALID);
  });

  it("invalid trace contexts are ignored", () => {
    expect(INVALID_VALUES.map(checkTraceparent)).to.deep.equal(INVALID_VALUES.map(() => undefined));
  });

  const parseMetadata = (more: object) => {
    const metadata = { ...createStoredMetadata(), ...more };
    return parseStoredEvent({ type: "StreamResumed", data: { stream: "animal-1", reason: "fixed" }, metadata })
      .metadata;
  };

  it("an event is readable without a trace context, and with an invalid one", () => {
    expect(parseMetadata({ traceparent: VALID }).traceparent).to.equal(VALID);
    expect(parseMetadata({})).not.to.have.property("traceparent");
    expect(parseMetadata({ traceparent: "broken" }).traceparent).to.equal(undefined);
  });
});
