import { expect } from "chai";
import { eventually } from "../../support/eventually.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { useResource } from "../../support/resources.ts";
import { createWorld, type Endpoint } from "./world.ts";

describe("an endpoint with the order `appointment`", () => {
  const world = useResource(createWorld);
  let receiver: Receiver;
  let endpoint: Endpoint;

  before(async () => {
    // Attempts are not repeated. Two dispatchers run, as in two processes.
    const options = { retryScheduleSeconds: [], timeoutMs: 60_000, connectTimeoutMs: 60_000 };
    world.startAll(options);
    world.start.webhooks(options);
    receiver = await startReceiver();
    endpoint = await world.registerEndpoint(receiver.url, { ordering: "appointment" });
  });
  beforeEach(() => {
    receiver.requests.length = 0;
  });

  /** Reschedules an appointment `count` times. @returns the event ids */
  async function reschedule(appointmentId: string, count: number): Promise<string[]> {
    const eventIds: string[] = [];
    for (let n = 1; n <= count; n += 1) {
      const data = { scheduledAt: "2030-05-01T10:00:00.000Z", durationMinutes: n, reason: null };
      eventIds.push(await world.changeAppointment(appointmentId, "AppointmentRescheduled", data));
    }
    return eventIds;
  }
  const awaitStatus = (eventId: string, status: string) => world.awaitStatus(eventId, endpoint, status);
  /** Returns the revisions of an appointment in the received requests, in order. */
  const listRequests = (appointmentId: string, path = "/") =>
    receiver.requests
      .filter((request) => request.path === path)
      .map(({ body }) => JSON.parse(body))
      .filter(({ data }) => data.appointment?.id === appointmentId)
      .map(({ data }) => data.appointment.revision);
  /** Sets the receiver's reactions to the events of one appointment, by revision. Other requests get 200. */
  const setReactions = (appointmentId: string, reactions: Parameters<Receiver["queueReactions"]>) =>
    receiver.chooseReactions(({ body }) => {
      const { appointment } = JSON.parse(body).data;
      return (appointment?.id === appointmentId && reactions[appointment.revision]) || {};
    });
  const requestReplay = (eventId: string) => world.requestReplay(eventId, endpoint);

  it("a slow delivery delays only later events of its own appointment", async () => {
    const { appointmentId, eventId } = await world.requestAppointment(endpoint.clinicId);
    const { appointmentId: otherId } = await world.requestAppointment(endpoint.clinicId);
    setReactions(appointmentId, [{}, { mode: "hold" }]);
    await awaitStatus(eventId, "delivered");
    const lastEventId = (await reschedule(appointmentId, 3)).at(-1)!;
    await awaitStatus((await reschedule(otherId, 3)).at(-1)!, "delivered");
    expect(listRequests(otherId)).to.deep.equal([0, 1, 2, 3]);
    await eventually("the matched events", () => world.readDelivery(lastEventId, endpoint));
    expect(listRequests(appointmentId)).to.deep.equal([0, 1]);
    receiver.release();
    await awaitStatus(lastEventId, "delivered");
    expect(listRequests(appointmentId)).to.deep.equal([0, 1, 2, 3]);
  });

  it("after a delivery has failed, the next event is sent, and replays block later events and arrive in order", async () => {
    const { appointmentId, eventId } = await world.requestAppointment(endpoint.clinicId);
    setReactions(appointmentId, [{ status: 500 }, { status: 500 }, { mode: "hold" }]);
    const eventIds = await reschedule(appointmentId, 3);
    await awaitStatus(eventIds[0]!, "failed");
    await eventually("the third event", () => receiver.countHeldRequests() === 1);
    expect(listRequests(appointmentId)).to.deep.equal([0, 1, 2]);
    setReactions(appointmentId, [{ mode: "hold" }]);
    // The first replay is not blocked, although a later event is being sent.
    await requestReplay(eventId);
    await eventually("the first replay", () => receiver.countHeldRequests() === 2);
    await requestReplay(eventIds[0]!);
    await eventually("the second replay", async () => {
      return (await world.readDelivery(eventIds[0]!, endpoint))?.status === "pending";
    });
    expect(listRequests(appointmentId)).to.deep.equal([0, 1, 2, 0]);
    receiver.release();
    await awaitStatus(eventIds.at(-1)!, "delivered");
    expect(listRequests(appointmentId)).to.deep.equal([0, 1, 2, 0, 1, 3]);
  });

  it("if the endpoint is disabled, blocked deliveries are skipped", async () => {
    const disabledEndpoint = await world.registerEndpoint(receiver.url, { ordering: "appointment" });
    const { appointmentId } = await world.requestAppointment(disabledEndpoint.clinicId);
    setReactions(appointmentId, [{ mode: "hold" }]);
    const [eventId] = await reschedule(appointmentId, 1);
    await eventually("the blocked delivery", () => world.readDelivery(eventId!, disabledEndpoint));
    await world.changeEndpoint(disabledEndpoint, "WebhookEndpointDisabled", { reason: "operator" });
    await world.awaitStatus(eventId!, disabledEndpoint, "skipped");
    receiver.release();
  });

  it("an endpoint that receives only changes of appointments gets them in order, too", async () => {
    const { clinicId } = endpoint;
    const updatesEndpoint = await world.registerEndpoint(`${receiver.url}/updates`, {
      clinicId,
      siblingEndpoint: endpoint,
      ordering: "appointment",
      events: ["appointment.updated"],
    });
    const { appointmentId } = await world.requestAppointment(clinicId);
    setReactions(appointmentId, [{}, { mode: "hold" }]);
    const lastEventId = (await reschedule(appointmentId, 2)).at(-1)!;
    await eventually("the matched events", () => world.readDelivery(lastEventId, updatesEndpoint));
    await eventually("a request at each endpoint", () => receiver.countHeldRequests() === 2);
    expect(listRequests(appointmentId, "/updates")).to.deep.equal([1]);
    receiver.release();
    await world.awaitStatus(lastEventId, updatesEndpoint, "delivered");
    expect(listRequests(appointmentId, "/updates")).to.deep.equal([1, 2]);
  });
});
