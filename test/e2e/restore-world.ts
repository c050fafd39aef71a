import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { expect } from "chai";
import pg from "pg";
import { registerAnimal, registerCustomer } from "../../command/operations/customer-operations.ts";
import type { ServiceName } from "../../deploy/local/stack/environment.ts";
import type { LocalStack } from "../../deploy/local/stack/stack.ts";
import { createEventLog } from "../../shared/eventstore/log.ts";
import { createDataKeys } from "../../shared/personal-data/create-data-keys.ts";
import { readConfig } from "../../shared/runtime/config.ts";
import { runAuditCommand } from "../command/audit/cli-terminal.ts";
import { runClinic } from "../command/cli/terminal.ts";
import { runCommandLine } from "../projection/engine-world.ts";
import { connectToLog } from "../support/connections.ts";
import { eventually } from "../support/eventually.ts";
import { createTestOperatorContext } from "../support/partner.ts";
import { startReceiver } from "../support/receiver.ts";
import { releaseLater } from "../support/resources.ts";
import { startTestStack } from "../support/stack.ts";
import { createWorld } from "./world.ts";

/** Time limit of each wait. Milliseconds. */
const TIMEOUT_MS = 30_000;

const SERVICES_WITH_POSTGRES: readonly ServiceName[] = ["projection", "command", "queryApi", "audit"];

const ISSUER = "https://api.clinic.example";
const SERVICE_ENV = {
  projection: { WEBHOOK_RETRY_SCHEDULE: Array.from({ length: 20 }, () => "1").join(",") },
  command: { TOKEN_ISSUER: ISSUER },
  queryApi: { TOKEN_ISSUER: ISSUER, PORTAL_JWT_ISSUER: `${ISSUER}/auth/v1` },
};

export const NOTES = "Bites";

/** A customer with one animal. */
export interface Owner {
  customerId: string;
  animalId: string;
}

export type RestoreWorld = Awaited<ReturnType<typeof startRestoreWorld>>;

/** Starts a stack with a clinic, a partner application and its receiver. Tests lose and restore the stack's data. */
export async function startRestoreWorld() {
  let stack = await startTestStack({ serviceEnv: SERVICE_ENV });
  let pool = openPool(stack);
  releaseLater(() => pool.end());
  const world = await createWorld(stack);
  const receiver = await startReceiver();
  const body = { url: receiver.url, events: ["appointment.created"] };
  const response = await world.requestPartner("POST", "/webhook-endpoints", { body });
  expect(response.status).to.equal(201);
  const endpointSecret: string = response.body.secret;

  const getServers = () => {
    const { eventstoreUrl, natsUrl, databaseUrls, root } = stack.servers;
    const { personalDataKeys } = root.secrets;
    return { eventstoreUrl, natsUrl, databaseUrl: databaseUrls.projection, personalDataKeys };
  };

  /** Registers a customer with one animal. Personal data is encrypted. */
  async function registerOwner(fullName: string): Promise<Owner> {
    const client = connectToLog(stack.servers.eventstoreUrl);
    const settings = readConfig(["PERSONAL_DATA_KEYS"], { PERSONAL_DATA_KEYS: getServers().personalDataKeys });
    const log = createEventLog(client, { dataKeys: createDataKeys(pool, settings) });
    const { clinicId } = world;
    const [customerId, animalId] = [randomUUID(), randomUUID()];
    const context = createTestOperatorContext();
    await registerCustomer(log, { customerId, clinicId, fullName, phone: null, email: null, city: null }, context);
    const animal = { name: "Luna", species: "cat", breed: null, sex: null, birthDate: null, weightKg: null };
    await registerAnimal(log, { animalId, clinicId, customerId, ...animal, microchip: null }, context);
    return { customerId, animalId };
  }

  /** Creates an appointment with encrypted notes. @returns its id */
  async function createAppointment(animalId = world.animalId, idempotencyKey: string = randomUUID()): Promise<string> {
    const createResponse = await eventually(
      "an appointment",
      async () => {
        const { status, body: responseBody } = await world.createAppointment(idempotencyKey, NOTES, animalId);
        return status === 201 && responseBody;
      },
      TIMEOUT_MS,
    );
    return createResponse.appointment.id;
  }

  const runClinicCommand = async (...args: string[]) => {
    const env = { EVENTSTORE_URL: stack.servers.eventstoreUrl, DATABASE_URL: stack.servers.databaseUrls.projection };
    const { code, outputLines, errorLines } = await runClinic(args, { env });
    expect(code, errorLines.join("\n")).to.equal(0);
    return outputLines.join("\n");
  };

  const parseAppointmentId = (text: string): string => JSON.parse(text).data.appointment.id;
  const listWebhooks = (id: string) => receiver.requests.filter((request) => parseAppointmentId(request.body) === id);
  const readDeliveryStatus = async (appointmentId: string): Promise<string | undefined> => {
    const { rows } = await pool.query("SELECT status FROM webhooks.delivery WHERE appointment_id = $1", [
      appointmentId,
    ]);
    return rows[0]?.status;
  };
  const listNotes = async () =>
    new Map([...(await world.listPortalAppointments())].map(([id, appointment]) => [id, appointment.notes]));
  const readHealth = async () => {
    const healthResponse = await fetch(`${stack.urls.projection}/health/ready`);
    const { parts } = (await healthResponse.json()) as { parts: Record<string, string | null> };
    return { status: healthResponse.status, parts };
  };

  return {
    clinicId: world.clinicId,
    receiver,
    endpointSecret,
    getStack: () => stack,
    getServers,
    query: (sql: string) => pool.query(sql),
    registerOwner,
    createAppointment,
    eraseCustomer: (id: string) =>
      runClinicCommand("customer", "erase", "--customer", id, "--clinic", world.clinicId, "--reason", "Request 17"),
    applyRetention: () => runClinicCommand("retention", "apply"),

    listWebhooks,
    /** Counts the successful webhooks of each appointment. Checks that they have the same delivery id. */
    countWebhooks: (ids: readonly string[]) =>
      ids.map((id) => {
        expect(new Set(listWebhooks(id).map(({ headers }) => headers["webhook-id"])).size).to.be.at.most(1);
        return listWebhooks(id).filter(({ status }) => status === 200).length;
      }),
    readDeliveryStatus,
    awaitWebhook: (id: string) => eventually("the webhook", () => listWebhooks(id).length > 0, TIMEOUT_MS),
    awaitDeliveryStatus: (id: string, status: string) =>
      eventually(`a ${status} delivery`, async () => (await readDeliveryStatus(id)) === status, TIMEOUT_MS),

    /** Returns the notes of all appointments that the portal lists, by id. */
    listNotes,
    awaitAppointment: (id: string) =>
      eventually("the appointment", async () => (await listNotes()).has(id), TIMEOUT_MS),
    /** Returns the names of all customers that the portal lists, by id. */
    async listCustomerNames(): Promise<Map<string, string>> {
      const { status, body: portalBody } = await world.requestPortal("/customers");
      expect(status).to.equal(200);
      return new Map(portalBody.customers.map((row: { id: string; fullName: string }) => [row.id, row.fullName]));
    },
    readHealth,
    awaitReadiness: () => eventually("ready", async () => (await readHealth()).status === 200, TIMEOUT_MS),

    /** Runs `clinic projection …` with the settings of the projection service. */
    runProjection: (...args: string[]) => runCommandLine(stack.env.projection, args),
    verify: async () => (await runCommandLine(stack.env.projection, ["verify"])).stdout,

    /** Exports all events of the clinic before `end` to a file. @returns the root hash in the manifest */
    async exportClinic(file: string, end: string): Promise<string> {
      const env = { ...stack.env.audit, EVENTSTORE_URL: stack.servers.eventstoreUrl };
      const args = ["export", "--clinic", world.clinicId, "--to", end, "--out", file];
      const result = await runAuditCommand(args, { env });
      expect(result.code, result.errorLines.join("\n")).to.equal(0);
      const lastLine = (await readFile(file, "utf8")).trimEnd().split("\n").at(-1) ?? "";
      return JSON.parse(lastLine).manifest.root;
    },

    /**
     * Runs a function while all services that use Postgres are stopped.
     *
     * @param neededServices services that are started afterwards
     */
    async withStoppedServices(run: () => Promise<void>, neededServices: readonly ServiceName[]) {
      await Promise.all(SERVICES_WITH_POSTGRES.map((name) => stack.components[name].stop()));
      await pool.end();
      await run();
      pool = openPool(stack);
      await Promise.all(neededServices.map((name) => stack.components[name].start()));
    },

    /**
     * Stops the stack, and starts a new stack with the same settings.
     *
     * @param prepare fills the folder `root` of the new stack
     */
    async moveTo(root: string, prepare: () => Promise<void>) {
      await Promise.all([stack.stop(), pool.end()]);
      await prepare();
      stack = await startTestStack({ root, serviceEnv: SERVICE_ENV });
      pool = openPool(stack);
      world.moveTo(stack);
    },
  };
}

function openPool({ servers }: LocalStack): pg.Pool {
  const pool = new pg.Pool({ connectionString: servers.databaseUrls.projection });
  pool.on("error", () => undefined); // the tests stop Postgres
  return pool;
}
