import type { PartnerOperationId, partnerOperations } from "../../shared/partner-api/operations.ts";

type PathOf<Id extends PartnerOperationId> = (typeof partnerOperations)[Id]["path"];
type First<Path> = Path extends `/${infer Segment}/${string}`
  ? Segment
  : Path extends `/${infer Segment}`
    ? Segment
    : never;

/** The first segment of an operation's path, by which the document groups operations. */
type Segment = First<PathOf<PartnerOperationId>>;

const sections: Readonly<Record<Segment, { name: string; description: string }>> = {
  oauth: { name: "Access tokens", description: "Credentials for a token" },
  clinic: { name: "Clinic", description: "What an installation reaches" },
  appointments: { name: "Appointments", description: "Read and request appointments" },
  "webhook-endpoints": { name: "Webhook endpoints", description: "Where events go, and what became of them" },
  sandbox: { name: "Sandbox", description: "The application's own clinic to try things in" },
};

/** All groups, in the document's order. */
export const partnerTags = Object.values(sections);

export function sectionOf(path: PathOf<PartnerOperationId>): string {
  return sections[path.split("/")[1] as Segment].name;
}
