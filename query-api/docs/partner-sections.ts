import type { PartnerOperationId, partnerOperations } from "../../shared/partner-api/operations.ts";

type PathOf<Id extends PartnerOperationId> = (typeof partnerOperations)[Id]["path"];

/** First segment of an operation's path. The OpenAPI document groups operations by this segment. */
type Segment = {
  [Id in PartnerOperationId]: `${PathOf<Id>}/` extends `/${infer First}/${string}` ? First : never;
}[PartnerOperationId];

const sections: Readonly<Record<Segment, { name: string; description: string }>> = {
  oauth: { name: "Access tokens", description: "Exchange credentials for an access token." },
  installations: { name: "Installations", description: "List the clinics that have approved your application." },
  clinic: { name: "Clinic", description: "Read the clinic, its branches and the installation's scopes." },
  appointments: { name: "Appointments", description: "List and create appointments." },
  "webhook-endpoints": {
    name: "Webhook endpoints",
    description: "Manage webhook endpoints. List and replay deliveries.",
  },
  sandbox: { name: "Sandbox", description: "Read and reset your application's test clinic." },
};

/** All tags of the OpenAPI document, in the order in which the page shows them. */
export const partnerTags = Object.values(sections);

/** Returns the name of the section that contains the operation with the given path. */
export function findSectionName(path: PathOf<PartnerOperationId>): string {
  return sections[path.split("/")[1] as Segment].name;
}
