/** Scenario: a release has a bug in its projectors. */
import { randomUUID } from "node:crypto";
import { registerCustomer } from "../../../../command/operations/customer-operations.ts";
import { createServiceComponent } from "../../../../deploy/local/stack/stack.ts";
import { connectEventStore } from "../../../../shared/eventstore/connect.ts";
import { READ_MODEL_SCHEMA } from "../../../../shared/postgres/read-model-schema.ts";
import { eventually } from "../../../support/eventually.ts";
import { createTestOperatorContext } from "../../../support/partner.ts";
import { createPlainLog } from "../../../support/plain-log.ts";
import { type ObservedStack, startObservedStack } from "../observed-stack.ts";
import type { ScenarioGroup } from "../scenario.ts";
import { requireNotReady, requireStatus } from "./processes.ts";

/**
 * Number of customers whose events the release cannot read. The projectors stop if events of one type fail in more than
 * 20 streams.
 */
const CUSTOMER_COUNT = 21;

const FAULT = new URL("faulty-release.mjs", import.meta.url).href;

export const faultyReleaseGroup: ScenarioGroup = {
  alerts: ["StreamsQuarantined", "ProjectionStopped"],
  async start(prometheusProgram) {
    const observed = await startObservedStack(prometheusProgram);
    const { components, env, servers, urls, prometheus, query, runClinic, stop } = observed;
    const faultyEnv = { ...env.projection, NODE_OPTIONS: `--import=${FAULT}` };
    const faultyRelease = createServiceComponent("projection", faultyEnv, servers.context);
    return {
      prometheus,
      scenarios: [
        {
          cause: `A release that could not read some customers was deployed, and ${CUSTOMER_COUNT} of them were registered.`,
          alerts: [{ alert: "StreamsQuarantined" }, { alert: "ProjectionStopped", labels: { role: "projectors" } }],
          async create() {
            await components.projection.stop();
            await faultyRelease.start();
            await registerCustomers(observed);
          },
          async followRunbook() {
            await requireNotReady(urls.projection, /^503 .*"projectors":"stopped at position \d+/);
            await requireStatus({ runClinic }, /quarantine/);
            await faultyRelease.stop();
            await components.projection.start();
            await eventually("all customers", async () => {
              const [row] = await query(
                `SELECT count(*)::integer AS count FROM ${READ_MODEL_SCHEMA}.customer WHERE city = 'Faulty'`,
              );
              return row?.count === CUSTOMER_COUNT;
            });
          },
        },
      ],
      async stop() {
        await faultyRelease.kill();
        await stop();
      },
    };
  },
};

async function registerCustomers({ servers, world: { clinicId } }: ObservedStack): Promise<void> {
  const client = connectEventStore(servers.eventstoreUrl, "test");
  const log = createPlainLog(client);
  for (let count = 0; count < CUSTOMER_COUNT; count += 1) {
    const details = { fullName: "Ada Yilmaz", phone: null, email: null, city: "Faulty" };
    await registerCustomer(log, { customerId: randomUUID(), clinicId, ...details }, createTestOperatorContext());
  }
  await client.dispose();
}
