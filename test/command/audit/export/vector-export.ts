import { generateExportLines } from "../../../../command/audit/export/export-clinic.ts";
import type { Manifest } from "../../../../command/audit/export/manifest.ts";
import type { AuditEvent } from "../../../../command/audit/log/audit-event.ts";
import { CLINIC_ID } from "./vector-events.ts";
import { createTestSigner, retiredKey, signingKey } from "./vector-keys.ts";

/** Returns the lines of an export of the events with a fixed manifest. The first key signs; by default, the first key of `keys.json`. */
export async function exportLines(
  events: AuditEvent[],
  manifest: Partial<Pick<Manifest, "stored">> = {},
  signingKeys = [signingKey, retiredKey],
): Promise<string[]> {
  const readEvents = async function* () {
    yield* events;
  };
  const lines = generateExportLines(readEvents(), {
    clinicId: CLINIC_ID,
    stored: { from: null, to: "2026-06-01T00:00:00.000Z" },
    made: {
      at: "2026-06-02T07:30:00.000Z",
      by: { type: "operator", id: "ada" },
      accessId: "66666666-6666-4666-8666-666666666666",
      logEnd: "9000000",
    },
    signer: await createTestSigner(...signingKeys),
    signal: new AbortController().signal,
    ...manifest,
  });
  const collectedLines: string[] = [];
  for await (const line of lines) collectedLines.push(line);
  return collectedLines;
}
