/** Scenario: the database lacks a data key, as after a restore of an older backup. */
import { randomUUID } from "node:crypto";
import { READ_MODEL_SCHEMA } from "../../../../shared/postgres/read-model-schema.ts";
import { startObservedStack } from "../observed-stack.ts";
import type { ScenarioGroup } from "../scenario.ts";

const NAME = "Grace Aydin";

export const dataKeyGroup: ScenarioGroup = {
  alerts: ["DataKeysMissing"],
  async start(prometheusProgram) {
    const { components, world, prometheus, query, runClinic, stop } = await startObservedStack(prometheusProgram);
    const { projection, dispatcher, command, queryApi, audit } = components;
    const customerId = randomUUID();
    const readName = async () =>
      (await query(`SELECT full_name FROM ${READ_MODEL_SCHEMA}.customer WHERE customer_id = $1`, [customerId]))[0]
        ?.full_name;
    let lostKeys: Record<string, unknown>[] = [];
    return {
      prometheus,
      scenarios: [
        {
          cause: "The data key of a new customer was deleted before the projectors read the events.",
          alerts: [{ alert: "DataKeysMissing", labels: { job: "projection" } }],
          async create() {
            await projection.stop();
            const options = ["--customer", customerId, "--clinic", world.clinicId, "--full-name", NAME];
            await runClinic("customer", "register", ...options);
            const deletion = await query("DELETE FROM data_keys.data_key k RETURNING to_jsonb(k) AS row");
            lostKeys = deletion.map(({ row }) => row as Record<string, unknown>);
            await projection.start();
          },
          async followRunbook() {
            await Promise.all([projection, dispatcher, command, queryApi, audit].map((component) => component.stop()));
            const sql = `INSERT INTO data_keys.data_key SELECT * FROM
              jsonb_populate_recordset(NULL::data_keys.data_key, $1) ON CONFLICT DO NOTHING`;
            await query(sql, [JSON.stringify(lostKeys)]);
            await runClinic("retention", "apply");
            await runClinic("projection", "rebuild");
            await Promise.all([projection, dispatcher].map((component) => component.start()));
            await Promise.all([command, queryApi, audit].map((component) => component.start()));
            const name = await readName();
            if (name !== NAME) throw new Error(`The read model shows ${name} instead of ${NAME}`);
          },
        },
      ],
      stop,
    };
  },
};
