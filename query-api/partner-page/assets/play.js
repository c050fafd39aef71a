import { runAction } from "./actions.js";
import { getClinic, getTimeZone, readLocalTime } from "./clinic.js";
import { confirmAction } from "./confirm.js";
import { createButton } from "./elements.js";
import { toLocalInput } from "./local-time.js";
import { request } from "./session.js";

const START = { "Start consultation": "in_consultation", Cancel: "cancelled" };

/** What the staff of a clinic can do with an appointment: the next statuses by label, by status. */
const STEPS = {
  requested: { Confirm: "confirmed", "Check in": "checked_in", Cancel: "cancelled", Move: undefined },
  confirmed: { "Check in": "checked_in", "No show": "no_show", Cancel: "cancelled", Move: undefined },
  checked_in: START,
  waiting: START,
  in_consultation: { Complete: "completed" },
};

/**
 * Creates the buttons that play the clinic's part in the application's sandbox, so that `appointment.updated` arrives.
 * The appointments of the fixture, which are older than the latest reset, cannot be changed.
 *
 * @param {(appointment: object) => void} onChange called after each change
 */
export function createPlayButtons({ id, status, scheduledAt, createdAt }, onChange) {
  const { sandbox } = getClinic();
  if (!sandbox || createdAt <= sandbox.resetAt) return [];
  const send = async (path, body) =>
    onChange((await request("POST", `/appointments/${id}/${path}`, { body })).appointment);
  const move = async () => {
    const input = {
      label: `New time (${getTimeZone()})`,
      value: toLocalInput(Date.parse(scheduledAt), getTimeZone()),
    };
    const start = await confirmAction({ title: "Move the appointment?", text: "", accept: "Move", input });
    if (start) await send("reschedule", { scheduledAt: readLocalTime(start) });
  };
  return Object.entries(STEPS[status] ?? {}).map(([label, to]) => {
    const play = to ? () => send("transitions", { to }) : move;
    const onclick = ({ currentTarget: button }) => runAction({ button, alertId: "appointments-alert" }, play);
    return createButton(label, { class: "small", onclick });
  });
}
