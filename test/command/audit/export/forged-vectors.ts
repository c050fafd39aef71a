/** Builds test vectors with recomputed hash chains, and with manifests that the service never signs. */
import { type CompactJWSHeaderParameters, CompactSign } from "jose";
import { CHAIN_SEED, computeNextLink } from "../../../../command/audit/export/chain.ts";
import { toCanonicalJson } from "../../../../command/audit/export/json.ts";
import { createManyEvents, historyEvents } from "./vector-events.ts";
import { exportLines } from "./vector-export.ts";
import { importPrivateKey, otherKey, signingKey, type TestKey } from "./vector-keys.ts";
import type { Vector } from "./vectors.ts";

export async function buildForgedVectors(lines: string[]): Promise<Vector[]> {
  return [...(await buildSignedVectors(lines)), ...(await buildRecomputedVectors(lines))];
}

interface Forgery {
  manifest?: Record<string, unknown>;
  header?: Partial<Record<keyof CompactJWSHeaderParameters, unknown>>;
  key?: TestKey | Uint8Array;
}

/** Files that are signed again: with another key, another header, or the trusted key and another manifest. */
async function buildSignedVectors(lines: string[]): Promise<Vector[]> {
  const { manifest } = JSON.parse(lines.at(-1) ?? "");
  const otherJwk = toPublicJwk(otherKey);
  const forgeries: [file: string, description: string, fault: Vector["fault"], forgery: Forgery][] = [
    [
      "signed-by-other-key",
      "signed with a key that is not trusted",
      "key_untrusted",
      { key: otherKey, header: { jwk: otherJwk } },
    ],
    ["key-removed", "the signature does not contain a key", "key_untrusted", { header: { jwk: undefined } }],
    ["key-replaced", "signed with another key than the signature contains", "signature_invalid", { key: otherKey }],
    ["type-wrong", "the signature has another type", "signature_type_wrong", { header: { typ: "JWT" } }],
    [
      "critical-header",
      "the signature has a critical header",
      "signature_invalid",
      { header: { crit: ["b64"], b64: true } },
    ],
    [
      "algorithm-wrong",
      "signed with HS256 and the public key as the secret",
      "signature_invalid",
      { key: Buffer.from(signingKey.x, "base64url"), header: { alg: "HS256" } },
    ],
    [
      "format-unknown",
      "the signed manifest has another format",
      "manifest_unsupported",
      { manifest: { format: "clinic-service-audit-export/2" } },
    ],
    [
      "clinic-in-upper-case",
      "the clinic in the signed manifest is in upper case",
      "manifest_unsupported",
      { manifest: { clinicId: "AAAAAAAA-AAAA-4AAA-8AAA-AAAAAAAAAAAA" } },
    ],
    [
      "interval-wrong",
      "the interval of the marks in the signed manifest is not a power of two",
      "manifest_unsupported",
      { manifest: { marks: { ...manifest.marks, every: 3 } } },
    ],
    [
      "manifest-extended",
      "the signed manifest has an unknown member",
      "manifest_unsupported",
      { manifest: { note: "" } },
    ],
    [
      "manifest-time-wrong",
      "a time in the signed manifest has no milliseconds",
      "manifest_unsupported",
      { manifest: { stored: { from: null, to: "2026-06-01T00:00:00Z" } } },
    ],
    ["count-wrong", "the signed manifest has another number of events", "count_mismatch", { manifest: { count: 4 } }],
    [
      "first-wrong",
      "the signed manifest names another first event",
      "first_or_last_mismatch",
      { manifest: { first: manifest.last } },
    ],
    ["last-wrong", "the signed manifest names no last event", "first_or_last_mismatch", { manifest: { last: null } }],
  ];
  return Promise.all(
    forgeries.map(async ([file, description, fault, forgery]) => ({
      file: `${file}.ndjson`,
      description,
      keys: "keys.json",
      fault,
      line: lines.length,
      content: [...lines.slice(0, -1), await signManifest(manifest, forgery)].join(""),
    })),
  );
}

const toPublicJwk = ({ kty, crv, x }: TestKey) => ({ kty, crv, x });

/** Returns a line with the manifest and its signature. */
async function signManifest(
  originalManifest: Record<string, unknown>,
  { manifest: changes, header, key = signingKey }: Forgery,
): Promise<string> {
  const manifest = { ...originalManifest, ...changes };
  const signature = await new CompactSign(Buffer.from(toCanonicalJson(manifest)))
    .setProtectedHeader({
      alg: "EdDSA",
      typ: "audit-export+jws",
      kid: signingKey.kid,
      jwk: toPublicJwk(signingKey),
      ...header,
    } as CompactJWSHeaderParameters)
    .sign(key instanceof Uint8Array ? key : await importPrivateKey(key), { crit: { b64: true } });
  return `${toCanonicalJson({ manifest, signature })}\n`;
}

/** Files whose hash chain is valid, but differs from the chain of the signed manifest. */
async function buildRecomputedVectors(lines: string[]): Promise<Vector[]> {
  const manifestLine = lines.at(-1) ?? "";
  const { manifest, signature } = JSON.parse(manifestLine);
  const changedEvents = historyEvents.map((event, index) => (index === 2 ? { ...event, type: "Forged" } : event));
  const changedLines = chainEvents(changedEvents);
  const changedManifest = { ...manifest, chain: changedLines.link };
  const longLines = await exportLines(createManyEvents());
  const longEvents = longLines.slice(0, 5).map((line) => JSON.parse(line).event);
  const changedLongEvents = longEvents.map((event, index) => (index === 3 ? { ...event, type: "Forged" } : event));
  const toVector = (file: string, description: string, line: number, content: string[]): Vector => ({
    file: `${file}.ndjson`,
    description,
    keys: "keys.json",
    fault: "chain_not_signed",
    line,
    content: content.join(""),
  });
  return [
    toVector("chain-recomputed", "the third event was changed and the hash chain was recomputed", 3, [
      ...changedLines.lines,
      manifestLine,
    ]),
    toVector("manifest-recomputed", "as chain-recomputed, and the readable manifest was changed to match", 3, [
      ...changedLines.lines,
      `${toCanonicalJson({ manifest: changedManifest, signature })}\n`,
    ]),
    toVector("event-appended", "an event was appended and the hash chain was extended", 6, [
      ...chainEvents([...historyEvents, historyEvents[0] ?? {}]).lines,
      manifestLine,
    ]),
    toVector(
      "marks-of-two-lines",
      "the start of an export of 4,100 events, which has a mark for every second line; the fourth event was changed",
      3,
      [...chainEvents(changedLongEvents).lines, longLines.at(-1) ?? ""],
    ),
  ];
}

/** Computes the hash chain of the events. */
function chainEvents(events: object[]): { lines: string[]; link: string } {
  let link = CHAIN_SEED;
  const lines = events.map((event) => {
    link = computeNextLink(link, toCanonicalJson(event));
    return `${toCanonicalJson({ chain: link, event })}\n`;
  });
  return { lines, link };
}
