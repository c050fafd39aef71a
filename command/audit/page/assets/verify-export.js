/**
 * Verifies exports and signatures according to docs/audit-format.md. Depends only on WebCrypto, so that the audit page
 * and the command line can share this module. Its types are in export/verify-export.ts.
 */

const encoder = new TextEncoder();
// By default, a decoder replaces invalid UTF-8 and removes a byte order mark, which would hide a difference.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

const FORMAT = "clinic-service-audit-export/1";
const MAX_LINE_BYTES = 16 * 1024 * 1024;
const MAX_BLOCKS = 1_024;
const LINE_FEED = 0x0a;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const HASH = /^[0-9a-f]{64}$/;
const POSITION = /^\d+$/;

const PURPOSES = { "audit-export+jws": "an audit export", "audit-tree-head+jws": "a tree head" };

/** Yields the lines of a file, with their line feeds. Throws a RangeError if a line is too long. */
export async function* splitLines(chunks) {
  let parts = [];
  let size = 0;
  const add = (bytes) => {
    parts.push(bytes);
    size += bytes.length;
    if (size > MAX_LINE_BYTES) throw new RangeError("a line is too long");
  };
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(LINE_FEED); end >= 0; end = chunk.indexOf(LINE_FEED, start)) {
      add(chunk.subarray(start, end + 1));
      yield join(parts);
      [parts, size, start] = [[], 0, end + 1];
    }
    add(chunk.subarray(start));
  }
  if (size > 0) yield join(parts);
}

function join(parts) {
  if (parts.length === 1) return parts[0];
  const bytes = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    bytes.set(part, offset);
    offset += part.length;
  }
  return bytes;
}

/** Returns the result of a function; undefined if it throws an error. */
function attempt(run) {
  try {
    return run();
  } catch {
    return undefined;
  }
}

const decodeUtf8 = (bytes) => attempt(() => decoder.decode(bytes));
const parseJson = (text) => attempt(() => JSON.parse(text));
const isCanonicalLine = (text, value) => attempt(() => text === `${toCanonicalJson(value)}\n`) === true;

/** Returns the canonical JSON of a parsed value (RFC 8785). Throws an error for a lone surrogate. */
function toCanonicalJson(value) {
  if (Array.isArray(value)) return `[${value.map(toCanonicalJson).join()}]`;
  if (typeof value === "object" && value !== null) {
    const members = Object.keys(value).sort();
    return `{${members.map((name) => `${toCanonicalJson(name)}:${toCanonicalJson(value[name])}`).join()}}`;
  }
  if (typeof value === "string" && !value.isWellFormed()) throw new Error("the text has a lone surrogate");
  return JSON.stringify(value);
}

const sha256 = async (...parts) => new Uint8Array(await crypto.subtle.digest("SHA-256", join(parts)));
const hashLeaf = (line) => sha256(new Uint8Array([0]), line);
const toHex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const fromHex = (text) => Uint8Array.from(text.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16));

/** Hashes pairs of neighboring hashes (RFC 6962). A last hash without a pair is kept. */
async function joinPairs(hashes) {
  const parents = [];
  for (let start = 0; start < hashes.length; start += MAX_BLOCKS) {
    const block = hashes.slice(start, start + MAX_BLOCKS);
    const pairs = Array.from({ length: Math.ceil(block.length / 2) }, (_, n) => block.slice(2 * n, 2 * n + 2));
    const joinPair = ([left, right]) => (right ? sha256(new Uint8Array([1]), left, right) : left);
    parents.push(...(await Promise.all(pairs.map(joinPair))));
  }
  return parents;
}

async function computeRoot(hashes) {
  if (hashes.length === 0) return sha256(new Uint8Array());
  return hashes.length === 1 ? hashes[0] : computeRoot(await joinPairs(hashes));
}

/** Converts the root hashes of blocks of `lines` lines to the root hashes of blocks of `width` lines. */
async function widen(hashes, lines, width) {
  return lines < width ? widen(await joinPairs(hashes), lines * 2, width) : hashes;
}

function decodeBase64url(text) {
  // Decoders also accept padding, spaces and other unused bits.
  if (!/^[\w-]*$/.test(text) || text.length % 4 === 1) return undefined;
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
  return encodeBase64url(bytes) === text ? bytes : undefined;
}

function encodeBase64url(bytes) {
  const text = btoa(String.fromCharCode(...bytes));
  return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isString = (value) => typeof value === "string";
const isPublicKey = (value) =>
  isObject(value) && value.kty === "OKP" && value.crv === "Ed25519" && isString(value.x) && value.x.isWellFormed();
const computeThumbprint = async ({ x }) =>
  encodeBase64url(await sha256(encoder.encode(`{"crv":"Ed25519","kty":"OKP","x":${JSON.stringify(x)}}`)));

/** Returns true for text in the form of a thumbprint: base64url of 32 bytes. */
export const isThumbprint = (text) => /^[\w-]{43}$/.test(text);

/** Returns the thumbprints in a text: a thumbprint, or JSON of a public key or a key set; undefined for other text. */
export async function readThumbprints(text) {
  if (isThumbprint(text.trim())) return new Set([text.trim()]);
  const value = parseJson(text);
  const keys = Array.isArray(value?.keys) ? value.keys : [value];
  if (keys.length === 0 || !keys.every(isPublicKey)) return undefined;
  return new Set(await Promise.all(keys.map(computeThumbprint)));
}

/** Verifies a signature (JWS). Returns the signed text, or the fault of the signature. */
export async function verifySignature(signature, type, thumbprints) {
  const invalid = { fault: "signature_invalid", problem: "the signature is invalid" };
  const texts = signature.split(".");
  const [headerBytes, payload, signatureBytes] = texts.map(decodeBase64url);
  if (texts.length !== 3 || !headerBytes || !payload || !signatureBytes) return invalid;
  const header = parseJson(decodeUtf8(headerBytes));
  if (!isObject(header) || header.alg !== "EdDSA" || "crit" in header) return invalid;
  const untrusted = (problem) => ({ fault: "key_untrusted", problem });
  if (!isPublicKey(header.jwk)) return untrusted("the signature does not contain its public key");
  const thumbprint = await computeThumbprint(header.jwk);
  if (!thumbprints.has(thumbprint))
    return untrusted(`the signature was made by an untrusted key, thumbprint ${thumbprint}`);
  if (!(await isSignatureValid(header.jwk, signatureBytes, encoder.encode(`${texts[0]}.${texts[1]}`)))) return invalid;
  if (header.typ !== type)
    return { fault: "signature_type_wrong", problem: `the signature is not for ${PURPOSES[type]}` };
  return { text: decodeUtf8(payload) ?? "" };
}

async function isSignatureValid({ kty, crv, x }, signature, input) {
  try {
    const key = await crypto.subtle.importKey("jwk", { kty, crv, x }, "Ed25519", false, ["verify"]);
    return await crypto.subtle.verify("Ed25519", key, signature, input);
  } catch (error) {
    if (error.name !== "NotSupportedError") return false;
    throw new Error("This browser cannot verify Ed25519 signatures. Use the command line or verify.py.");
  }
}

function hasExactly(value, ...names) {
  return (
    isObject(value) && Object.keys(value).length === names.length && names.every((name) => Object.hasOwn(value, name))
  );
}

const matches = (value, pattern) => isString(value) && pattern.test(value);
const isCount = (value, minimum) => Number.isSafeInteger(value) && value >= minimum;
const isTime = (value) =>
  matches(value, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) &&
  !Number.isNaN(Date.parse(value)) &&
  new Date(value).toISOString() === value;
const isEvent = (value) => isObject(value) && isString(value.position) && isString(value.id);
const isReference = (value) =>
  value === null || (hasExactly(value, "position", "id") && matches(value.position, POSITION) && isString(value.id));
const isManifestLine = (value) => hasExactly(value, "manifest", "signature") && isString(value.signature);

function isManifest(value) {
  const names = ["format", "clinicId", "stored", "count", "first", "last", "root", "blocks", "made"];
  if (!hasExactly(value, ...names)) return false;
  const { format, clinicId, stored, count, first, last, root, blocks, made } = value;
  if (format !== FORMAT || !matches(clinicId, UUID) || !isCount(count, 0) || !matches(root, HASH)) return false;
  if (!hasExactly(stored, "from", "to") || !(stored.from === null || isTime(stored.from)) || !isTime(stored.to))
    return false;
  if (!isReference(first) || !isReference(last) || !hasExactly(blocks, "lines", "roots")) return false;
  if (!isCount(blocks.lines, 1) || !Number.isInteger(Math.log2(blocks.lines)) || !Array.isArray(blocks.roots))
    return false;
  if (!blocks.roots.every((hash) => matches(hash, HASH)) || !hasExactly(made, "at", "by", "accessId", "logEnd"))
    return false;
  const { at, by, accessId, logEnd } = made;
  if (!isTime(at) || !isString(accessId) || !matches(logEnd, POSITION)) return false;
  return hasExactly(by, "type", "id") && isString(by.type) && isString(by.id);
}

const INVALID_UTF8 = { fault: "invalid_utf8", problem: "the line is not valid UTF-8" };
const NOT_CANONICAL = { fault: "not_canonical", problem: "the line is not in its canonical form" };

/** Summary and hashes of the lines that were verified so far. */
class Lines {
  count = 0;
  first = null;
  last = null;
  #hashes = [];
  #pending = [];

  /** Adds a line if it is an event in canonical form. Otherwise, returns the fault of the line. */
  async add(line) {
    const text = decodeUtf8(line);
    if (text === undefined) return INVALID_UTF8;
    const value = parseJson(text);
    if (!isEvent(value))
      return isManifestLine(value)
        ? { fault: "manifest_not_last", problem: "the manifest is not the last line" }
        : { fault: "not_an_event", problem: "the line is not an event" };
    if (!isCanonicalLine(text, value)) return NOT_CANONICAL;
    const { position, id } = value;
    this.count += 1;
    this.first ??= { position, id };
    this.last = { position, id };
    this.#pending.push(hashLeaf(line.subarray(0, -1)));
    if (this.#pending.length === MAX_BLOCKS) await this.getHashes();
    return undefined;
  }

  async getHashes() {
    this.#hashes.push(...(await Promise.all(this.#pending)));
    this.#pending = [];
    return this.#hashes;
  }
}

/**
 * Verifies that an export is complete and unaltered.
 *
 * @param {AsyncIterable<Uint8Array>} chunkLines lines with their line feeds
 * @param {ReadonlySet<string>} thumbprints thumbprints of the trusted keys
 * @param {{ clinic?: string, from?: string | null, to?: string }} expected clinic and range that the manifest must name
 * @returns the manifest; or the first wrong line, its fault and the problem
 */
export async function verifyExport(chunkLines, thumbprints, expected = {}) {
  const lines = new Lines();
  const reject = (fault, line = lines.count + 1) => ({ ok: false, line, ...fault });
  let last;
  for await (const line of chunkLines) {
    const fault = last && (await lines.add(last));
    if (fault) return reject(fault);
    last = line;
  }
  const missing = (problem) => ({ fault: "manifest_missing", problem });
  if (!last) return reject(missing("the file is empty; the manifest is missing"));
  const text = decodeUtf8(last);
  if (text === undefined) return reject(INVALID_UTF8);
  const value = parseJson(text);
  if (isEvent(value)) {
    const problem = "the file ends here; the manifest is missing, and events may be missing";
    return reject((await lines.add(last)) ?? missing(problem));
  }
  const result = await verifyManifest(text, value, lines, thumbprints);
  if ("fault" in result) return reject(result, result.line);
  const problem = describeDifferences(result, expected);
  return problem ? reject({ fault: "unexpected_export", problem }) : { ok: true, manifest: result };
}

/**
 * Verifies the last line of an export, and compares the events with the signed manifest. Trusts the readable copy of
 * the manifest only if it equals the signed one. Returns the signed manifest or a fault.
 */
async function verifyManifest(text, value, lines, thumbprints) {
  if (!isManifestLine(value))
    return { fault: "not_a_manifest", problem: "the line is neither an event nor the signed manifest" };
  if (!isCanonicalLine(text, value)) return NOT_CANONICAL;
  const signed = await verifySignature(value.signature, "audit-export+jws", thumbprints);
  if ("fault" in signed) return signed;
  const manifest = parseJson(signed.text);
  if (!isManifest(manifest))
    return { fault: "manifest_unsupported", problem: "the manifest has a format that this release does not support" };
  const hashes = await lines.getHashes();
  if (manifest.root !== toHex(await computeRoot(hashes))) return locateChange(manifest.blocks, hashes);
  if (signed.text !== toCanonicalJson(value.manifest))
    return { fault: "manifest_altered", problem: "the manifest differs from the signed manifest" };
  if (manifest.count !== lines.count) {
    const problem = `the manifest lists ${manifest.count} events, but the file contains ${lines.count}`;
    return { fault: "count_mismatch", problem };
  }
  const [first, last] = [manifest.first, manifest.last];
  if (toCanonicalJson([first, last]) !== toCanonicalJson([lines.first, lines.last]))
    return { fault: "first_or_last_mismatch", problem: "the manifest names a different first or last event" };
  return manifest;
}

/** Returns the fault that names the first changed line, or the first changed block of lines. */
async function locateChange({ lines, roots }, hashes) {
  let width = lines;
  while (Math.ceil(hashes.length / width) > MAX_BLOCKS) width *= 2;
  const own = (await widen(hashes, 1, width)).map(toHex);
  const signed = (await widen(roots.map(fromHex), lines, width)).map(toHex);
  let equal = 0;
  while (own[equal] !== undefined && own[equal] === signed[equal]) equal += 1;
  const line = equal * width + 1;
  const where = width === 1 ? "the line was" : `a line from here up to line ${line + width - 1} was`;
  return { line, fault: "lines_changed", problem: `${where} changed, inserted or removed after signing` };
}

function describeDifferences({ clinicId, stored }, { clinic, from, to }) {
  const pairs = [
    ["clinic", clinic, clinicId],
    ["from", from, stored.from],
    ["to", to, stored.to],
  ];
  const mismatches = pairs
    .filter(([, expected, actual]) => expected !== undefined && expected !== actual)
    .map(
      ([name, wanted, actual]) => `expected ${name} ${wanted ?? "start"}, but the manifest says ${actual ?? "start"}`,
    );
  return mismatches.length > 0 ? `it is not the expected export: ${mismatches.join("; ")}` : undefined;
}
