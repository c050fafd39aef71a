import type { PartnerOperationId, partnerOperations } from "../../shared/partner-api/operations.ts";

type PathOf<Id extends PartnerOperationId> = (typeof partnerOperations)[Id]["path"];
type First<Path> = Path extends `/${infer Segment}/${string}`
  ? Segment
  : Path extends `/${infer Segment}`
    ? Segment
    : never;

/** First segment of an operation's path. The document groups operations by it. */
type Segment = First<PathOf<PartnerOperationId>>;

const sections: Readonly<Record<Segment, { name: string; description: string }>> = {
  oauth: { name: "Access tokens", description: "Exchange credentials for an access token" },
  clinic: { name: "Clinic", description: "The clinic, its branches and the installation's rights" },
  appointments: { name: "Appointments", description: "List and create appointments" },
  "webhook-endpoints": {
    name: "Webhook endpoints",
    description: "Register endpoints, list deliveries and replay them",
  },
  sandbox: { name: "Sandbox", description: "Your application's own clinic for testing" },
};

/** All groups, in document order. */
export const partnerTags = Object.values(sections);

export function sectionOf(path: PathOf<PartnerOperationId>): string {
  return sections[path.split("/")[1] as Segment].name;
}
