import { change, defineReadModel } from "../engine/read-model.ts";

type ClinicRow = {
  clinic_id: string;
  environment: string;
  slug: string;
  name: string;
  timezone: string;
  currency: string;
  locale: string;
  city: string | null;
  status: string;
  is_demo: boolean;
  demo_expires_at: string | null;
  /** {plan, status, currentPeriodEnd} */
  subscription: unknown;
  created_at: string;
};

export const clinics = defineReadModel<ClinicRow>()({
  table: "clinic",
  columns: {
    clinic_id: "uuid",
    environment: "text",
    slug: "text",
    name: "text",
    timezone: "text",
    currency: "text",
    locale: "text",
    city: "text",
    status: "text",
    is_demo: "boolean",
    demo_expires_at: "timestamptz",
    subscription: "jsonb",
    created_at: "timestamptz",
  },
  nullable: ["city", "demo_expires_at", "subscription"],
  primaryKey: ["clinic_id"],
  indexes: [],
  key: (event) => [event.data.clinicId],
  on: {
    ClinicRegistered: (_, { data, metadata }) => ({
      clinic_id: data.clinicId,
      environment: data.environment,
      slug: data.slug,
      name: data.name,
      timezone: data.timezone,
      currency: data.currency,
      locale: data.locale,
      city: data.city,
      status: "active",
      is_demo: data.isDemo,
      demo_expires_at: data.demoExpiresAt,
      subscription: null,
      created_at: metadata.occurredAt,
    }),
    ClinicSuspended: change(() => ({ status: "suspended" })),
    ClinicReinstated: change(() => ({ status: "active" })),
    ClinicClosed: change(() => ({ status: "closed" })),
    SubscriptionChanged: change(({ data: { plan, status, currentPeriodEnd } }) => ({
      subscription: { plan, status, currentPeriodEnd },
    })),
  },
});
