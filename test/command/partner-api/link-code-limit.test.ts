import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { createLinkCode } from "../../../command/operations/animal-link-operations.ts";
import { registerAnimal } from "../../../command/operations/customer-operations.ts";
import { createLinkCodes } from "../../../command/operations/link-codes.ts";
import { MAX_WRONG_CODES_PER_HOUR } from "../../../shared/partner-api/rate-limits.ts";
import { type LimiterWorld, startLimiterWorld } from "../../shared/rate-limit/limiters.ts";
import { PERSONAL_DATA_KEYS } from "../../support/data-keys.ts";
import {
  createPartnerWorld,
  createTestOperatorContext,
  type PartnerWorld,
  sendRequest,
  startTestCommandService,
} from "../../support/partner.ts";
import { useResource } from "../../support/resources.ts";
import { serveCommandApp } from "./command-app.ts";

const linkCodes = createLinkCodes(JSON.parse(PERSONAL_DATA_KEYS));

describe("the limit of wrong link codes", () => {
  const command = useResource(startTestCommandService);
  /** Two instances of the service with their own rate limiters, as in two processes. */
  let apps: Awaited<ReturnType<typeof serveCommandApp>>[];
  let limiterWorld: LimiterWorld;
  let examinedCodes: string[] = [];

  before(async () => {
    const listLinkIds = (code: string) => {
      examinedCodes.push(code);
      return linkCodes.listLinkIds(code);
    };
    const observedCodes = { ...linkCodes, listLinkIds };
    limiterWorld = await startLimiterWorld();
    const serve = () => {
      const limiter = limiterWorld.createLimiter(limiterWorld.database.urls.command);
      return serveCommandApp(command, { linkCodes: observedCodes, limiter });
    };
    apps = [await serve(), await serve()];
  });
  beforeEach(() => {
    examinedCodes = [];
  });

  const createWrongCode = (index: number) => `WR0NG-${String(index).padStart(7, "0")}`;

  /** Sends all codes concurrently, alternately to both instances. Returns the statuses in the order of the codes. */
  const redeemAll = ({ headers }: PartnerWorld, codes: readonly string[]): Promise<number[]> =>
    Promise.all(
      codes.map(async (code, index) => {
        const url = `${apps[index % 2]!.url}/production/v1/animal-links`;
        return (await sendRequest("POST", url, headers, { code })).status;
      }),
    );

  async function createCodes(world: PartnerWorld, count: number): Promise<string[]> {
    const { clinicId, customerId, applicationId } = world;
    const codes = [];
    for (let index = 0; index < count; index += 1) {
      const animalId = randomUUID();
      const details = { name: "Duman", species: "dog", breed: null, sex: null, birthDate: null, microchip: null };
      const registration = { animalId, clinicId, customerId, ...details, weightKg: null };
      await registerAnimal(command.log, registration, createTestOperatorContext());
      const input = { applicationId, clinicId, animalId, covers: "appointments_read" as const, validMinutes: 60 };
      const { secrets } = await createLinkCode({ log: command.log, linkCodes }, input, createTestOperatorContext());
      codes.push(secrets.code);
    }
    return codes;
  }

  it("of 60 wrong codes sent at once to two processes, exactly ten are examined, and later no correct code", async () => {
    const world = await createPartnerWorld(command);
    const [correctCode] = await createCodes(world, 1);
    const statuses = await redeemAll(
      world,
      Array.from({ length: 60 }, (_, index) => createWrongCode(index)),
    );
    // On a busy machine, some of the codes that are not examined are refused with 503.
    expect(statuses.filter((status) => ![429, 503].includes(status))).to.eql(Array(10).fill(422));
    expect(await redeemAll(world, [correctCode!, correctCode!])).to.eql([429, 429]);
    expect(examinedCodes).to.have.length(MAX_WRONG_CODES_PER_HOUR);
  });

  it("text that cannot be a code does not count as a wrong code", async () => {
    const world = await createPartnerWorld(command);
    const texts = ["", " ", "-", "WRONG-1", "0000-0000-000U", "0000-0000-00000", "\u0000", "https://example.com/code"];
    const statuses = await redeemAll(world, [...texts, ...texts]);
    expect(statuses).to.eql(Array(2 * texts.length).fill(422));
    expect(await redeemAll(world, await createCodes(world, 1))).to.eql([201]);
  });

  it("20 correct codes sent at once to two processes all succeed, and do not reduce the number of wrong codes", async () => {
    const world = await createPartnerWorld(command);
    expect(await redeemAll(world, await createCodes(world, 20))).to.eql(Array(20).fill(201));
    const wrongCodes = Array.from({ length: MAX_WRONG_CODES_PER_HOUR + 1 }, (_, index) => createWrongCode(index));
    const statuses = await redeemAll(world, wrongCodes);
    expect(statuses.sort()).to.eql([...Array(MAX_WRONG_CODES_PER_HOUR).fill(422), 429]);
  });
});
