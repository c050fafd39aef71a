import { createHash, randomBytes } from "node:crypto";

/** The time-stamp server did not return a time stamp. The message gives the reason. */
export class TimeStampError extends Error {
  override readonly name = "TimeStampError";
}

const REQUEST_TIMEOUT_MS = 20_000;

/** Length of the random number in a request, which connects the response with the request. */
const NONCE_BYTES = 8;

/**
 * Requests a time stamp (RFC 3161) for a file. Checks that the response is about this request and file, but not its
 * signature, because only the recipients of the time stamp decide which server they trust.
 *
 * @returns the response, which `openssl ts -verify` accepts
 * @throws {TimeStampError}
 */
export async function requestTimeStamp(url: string, content: string): Promise<Buffer> {
  const digest = createHash("sha256").update(content, "utf8").digest();
  const nonce = createNonce();
  const response = await send(url, encodeRequest(digest, nonce));
  try {
    requireTimeStamp(response, digest, nonce);
  } catch (error) {
    if (!(error instanceof DerError)) throw error;
    throw new TimeStampError("the response is not a time stamp", { cause: error });
  }
  return response;
}

async function send(url: string, request: Buffer): Promise<Buffer> {
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: { "Content-Type": "application/timestamp-query" },
      body: new Uint8Array(request),
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
    });
    const body = Buffer.from(await response.arrayBuffer());
    if (response.status !== 200) throw new TimeStampError(`the server returned status ${response.status}`);
    return body;
  } catch (error) {
    if (error instanceof TimeStampError) throw error;
    const { message, cause } = error as Error;
    throw new TimeStampError(cause instanceof Error ? `${message}: ${cause.message}` : message, { cause: error });
  }
}

/** Returns a positive number whose DER encoding has exactly this length. */
function createNonce(): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  nonce[0] = ((nonce[0] ?? 0) & 0x3f) | 0x40;
  return nonce;
}

const BOOLEAN = 0x01;
const INTEGER = 0x02;
const OCTET_STRING = 0x04;
const SEQUENCE = 0x30;
const CONTEXT_0 = 0xa0;

/** The algorithm SHA-256: the sequence of its object identifier 2.16.840.1.101.3.4.2.1 and NULL. */
const SHA256 = Buffer.from("300d06096086480165030402010500", "hex");

/** Encodes a TimeStampReq in DER: version 1, the digest, the nonce, and a request for the server's certificate. */
function encodeRequest(digest: Buffer, nonce: Buffer): Buffer {
  const imprint = encode(SEQUENCE, SHA256, encode(OCTET_STRING, digest));
  const version = encode(INTEGER, Buffer.from([1]));
  return encode(SEQUENCE, version, imprint, encode(INTEGER, nonce), encode(BOOLEAN, Buffer.from([0xff])));
}

/** Encodes an element with contents of less than 128 bytes. */
function encode(tag: number, ...contents: Buffer[]): Buffer {
  const content = Buffer.concat(contents);
  return Buffer.concat([Buffer.from([tag, content.length]), content]);
}

/** Values of PKIStatus for a granted time stamp: granted, and granted with modifications. */
const GRANTED_STATUSES = [0, 1];

/**
 * Checks that a TimeStampResp grants a time stamp for the digest and contains the nonce.
 *
 * @throws {TimeStampError} if the server refused the request, or the response is about another one
 * @throws {DerError} if the response is malformed
 */
function requireTimeStamp(response: Buffer, digest: Buffer, nonce: Buffer): void {
  const { content } = readElement(response);
  const status = findContent(findContent(content, SEQUENCE), INTEGER)[0] ?? -1;
  if (!GRANTED_STATUSES.includes(status))
    throw new TimeStampError(`the server refused the request with PKIStatus ${status}`);
  const contentInfo = findContent(content, SEQUENCE, 1);
  const signedData = findContent(findContent(contentInfo, CONTEXT_0), SEQUENCE);
  const encapsulatedInfo = findContent(signedData, SEQUENCE);
  const { content: info } = readElement(findContent(findContent(encapsulatedInfo, CONTEXT_0), OCTET_STRING));
  const stampedDigest = findContent(findContent(info, SEQUENCE), OCTET_STRING);
  // The integers of a TSTInfo are its version, its serial number and the nonce.
  const stampedNonce = findContent(info, INTEGER, 2);
  if (!stampedDigest.equals(digest) || !stampedNonce.equals(nonce))
    throw new TimeStampError("the time stamp is for another request");
}

/**
 * An element of data in the encoding DER (ITU-T X.690): its tag and its content. The functions below read and write the
 * few elements of a time stamp; `@peculiar/asn1-tsp` would add ten packages for them.
 */
interface Element {
  tag: number;
  content: Buffer;
}

class DerError extends Error {
  override readonly name = "DerError";
}

/**
 * Reads the first element.
 *
 * @throws {DerError} if the element is truncated, or has a length or tag of a form that time stamps do not use
 */
function readElement(bytes: Buffer): Element & { byteLength: number } {
  const [tag, firstLengthByte] = bytes;
  if (tag === undefined || firstLengthByte === undefined || (tag & 0x1f) === 0x1f) throw new DerError("no element");
  const lengthBytes = firstLengthByte < 0x80 ? 0 : firstLengthByte & 0x7f;
  if (lengthBytes > 4 || firstLengthByte === 0x80 || bytes.length < 2 + lengthBytes) throw new DerError("bad length");
  const start = 2 + lengthBytes;
  const length = lengthBytes === 0 ? firstLengthByte : bytes.readUIntBE(2, lengthBytes);
  if (bytes.length < start + length) throw new DerError("truncated element");
  return { tag, content: bytes.subarray(start, start + length), byteLength: start + length };
}

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
function findContent(content: Buffer, tag: number, ordinal = 0): Buffer {
  const element = listElements(content).filter((candidate) => candidate.tag === tag)[ordinal];
  if (!element) throw new DerError(`element with tag ${tag} is missing`);
  return element.content;
}
