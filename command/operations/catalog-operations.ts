import * as resources from "../../shared/domain/clinic/resource.ts";
import * as services from "../../shared/domain/clinic/service.ts";
import { resourceStreams, serviceStreams } from "../../shared/domain/events/clinic.ts";
import { timeZone } from "../../shared/domain/time/time-zone.ts";
import { defineCommand, defineTransitions } from "./define-command.ts";

const { ServiceOffered, ServiceRepriced, ServiceWithdrawn } = serviceStreams.events;
const { ResourceAdded, ResourceRetired, AvailabilityRuleSet, AvailabilityRuleRemoved } = resourceStreams.events;
const permission = "manage_tenant";

export const offerService = defineCommand("service offer", services.serviceAggregate, {
  summary: "Adds a service to a clinic's catalog, priced in the clinic's currency.",
  input: ServiceOffered.omit({ currency: true }),
  creates: "serviceId",
  permission,
  decide: services.offerService,
  example: { name: "Consultation", category: "Consultations", price: 60, taxable: true },
});

export const repriceService = defineCommand("service reprice", services.serviceAggregate, {
  summary: "Sets the price of a service.",
  input: ServiceRepriced,
  permission,
  decide: services.repriceService,
  example: { price: 65 },
});

export const [withdrawService, reinstateService] = defineTransitions(
  "service",
  services.serviceAggregate,
  { input: ServiceWithdrawn, permission },
  [
    ["withdraw", "Withdraws a service from the catalog.", services.withdrawService],
    ["reinstate", "Offers a withdrawn service again.", services.reinstateService],
  ],
);

export const addResource = defineCommand("resource add", resources.resourceAggregate, {
  summary: "Adds a bookable resource (room, device or staff time) to a branch.",
  input: ResourceAdded.extend({
    capacity: ResourceAdded.shape.capacity.default(1),
    timezone: timeZone.nullable().describe("IANA time zone; default: time zone of the clinic"),
    metadata: ResourceAdded.shape.metadata.default({}),
  }),
  creates: "resourceId",
  permission,
  decide: resources.addResource,
  example: { resourceType: "room", name: "Room 1" },
});

export const retireResource = defineCommand("resource retire", resources.resourceAggregate, {
  summary: "Retires a resource. A retired resource cannot be allocated.",
  input: ResourceRetired,
  permission,
  decide: resources.retireResource,
});

export const setRule = defineCommand("rule set", resources.resourceAggregate, {
  summary: "Sets an availability rule of a resource. Replaces an existing rule with the same id.",
  input: AvailabilityRuleSet.extend({ ruleType: AvailabilityRuleSet.shape.ruleType.default("opening_hours") }),
  creates: "ruleId",
  permission,
  decide: resources.setRule,
  example: { weekday: 1, startsAt: "08:00:00", endsAt: "18:00:00" },
});

export const removeRule = defineCommand("rule remove", resources.resourceAggregate, {
  summary: "Removes an availability rule of a resource.",
  input: AvailabilityRuleRemoved,
  permission,
  decide: resources.removeRule,
});
