/** An element of data in the encoding DER (ITU-T X.690): its tag and its content. */
interface Element {
  tag: number;
  content: Buffer;
}

/** The data is not in the expected form. */
export class DerError extends Error {
  override readonly name = "DerError";
}

/**
 * Reads the first element.
 *
 * @throws {DerError} if the element is truncated, or has a length or tag of a form that time stamps do not use
 */
export function readElement(bytes: Buffer): Element & { byteLength: number } {
  const [tag, firstLengthByte] = bytes;
  if (tag === undefined || firstLengthByte === undefined || (tag & 0x1f) === 0x1f) throw new DerError("no element");
  const lengthBytes = firstLengthByte < 0x80 ? 0 : firstLengthByte & 0x7f;
  if (lengthBytes > 4 || firstLengthByte === 0x80 || bytes.length < 2 + lengthBytes) throw new DerError("bad length");
  const start = 2 + lengthBytes;
  const length = lengthBytes === 0 ? firstLengthByte : bytes.readUIntBE(2, lengthBytes);
  if (bytes.length < start + length) throw new DerError("truncated element");
  return { tag, content: bytes.subarray(start, start + length), byteLength: start + length };
}

/** Reads the elements inside a constructed element. */
function listElements(content: Buffer): Element[] {
  const elements: Element[] = [];
  for (let rest = content; rest.length > 0; ) {
    const { byteLength, ...element } = readElement(rest);
    elements.push(element);
    rest = rest.subarray(byteLength);
  }
  return elements;
}

/**
 * Finds an element with a tag inside a constructed element, and returns its content.
 *
 * @param ordinal number of the element among those with this tag, counted from 0
 * @throws {DerError} if there is no such element
 */
export function findContent(content: Buffer, tag: number, ordinal = 0): Buffer {
  const element = listElements(content).filter((candidate) => candidate.tag === tag)[ordinal];
  if (!element) throw new DerError(`element with tag ${tag} is missing`);
  return element.content;
}
