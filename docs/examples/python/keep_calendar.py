"""Keeps a copy of a clinic's calendar: all appointments that the clinic's installation of your application shows.

    keep_calendar.py [LINK_CODE ...]  redeems the codes, books an appointment for each animal, and follows the clinic
    keep_calendar.py --print          prints the copy as JSON

It reads the variables API, CLIENT_ID, CLIENT_SECRET and CLINIC_ID, and STATE, the path of its SQLite file. You can stop
it at any time, also with SIGKILL, and start it again: the file contains all that it has received and still has to do.
"""
import http.client
import json
import os
import sqlite3
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from datetime import datetime, timedelta, timezone

# A date before all appointments: with it, the list of changes contains every visible appointment.
FIRST_DAY = "2000-01-01T00:00:00Z"
# Imports, and erasures of an owner's data, change the calendar without an event. So the program also reads it hourly.
READ_AGAIN_SECONDS = 3600
# After these events, other appointments are visible than before.
VISIBILITY_EVENTS = {"animal_link.created", "animal_link.withdrawn", "installation.approved"}
VISIBILITY_EVENTS |= {"installation.access_changed", "sandbox.reset"}

SCHEMA = """
CREATE TABLE IF NOT EXISTS appointment (id TEXT PRIMARY KEY, revision INTEGER NOT NULL, record TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS link_code (code TEXT PRIMARY KEY, outcome TEXT);
CREATE TABLE IF NOT EXISTS booking (idempotency_key TEXT PRIMARY KEY, request TEXT NOT NULL, outcome TEXT);
CREATE TABLE IF NOT EXISTS feed (id INTEGER PRIMARY KEY CHECK (id = 1), cursor TEXT NOT NULL, read_at REAL NOT NULL);
"""

# A row changes only if the new record is newer, so the order of events and reads does not matter.
UPSERT = """
INSERT INTO appointment (id, revision, record) VALUES (?, ?, ?)
ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, record = excluded.record
WHERE appointment.revision < excluded.revision
"""


class Refused(Exception):
    """A response that a repetition of the request would not change."""

    def __init__(self, request, status, body):
        self.status, self.code = status, body.get("error")
        details = [f"{detail['path']} {detail['message']}" for detail in body.get("details", [])]
        super().__init__(f"{request}: {status} {self.code} {details} (correlation id {body.get('correlationId')})")


class PartnerApi:
    """Sends requests to one clinic. Waits and repeats them until the service accepts or refuses them."""
    def __init__(self, url, client_id, client_secret, clinic_id):
        self.url, self.clinic_id = url, clinic_id
        self.credentials = {"client_id": client_id, "client_secret": client_secret}
        self.token, self.renew_at = None, 0.0

    def get(self, path, **query):
        return self.call("GET", f"{path}?{urllib.parse.urlencode(query)}")

    def post(self, path, body, **headers):
        return self.call("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})

    def call(self, method, path, data=None, headers=None):
        renewed = False
        while True:
            if time.monotonic() > self.renew_at:
                self.renew_token()
            authorization = {"Authorization": f"Bearer {self.token}", "X-SERVICE-Clinic-ID": self.clinic_id}
            try:
                return self.send(method, path, data, {**authorization, **(headers or {})})
            except Refused as error:
                if error.status != 401 or renewed:
                    raise
                renewed, self.renew_at = True, 0.0

    def renew_token(self):
        form = urllib.parse.urlencode({**self.credentials, "grant_type": "client_credentials"}).encode()
        sent_at = time.monotonic()
        response = self.send("POST", "/oauth/token", form, {})
        self.token, self.renew_at = response["access_token"], sent_at + response["expires_in"] - 60

    def send(self, method, path, data, headers):
        backoff = 1
        while True:
            request = urllib.request.Request(self.url + path, data, headers, method=method)
            retry_after = ""
            try:
                # The service holds a request for events for 25 seconds.
                with urllib.request.urlopen(request, timeout=60) as response:
                    return json.load(response)
            except urllib.error.HTTPError as error:
                if error.code not in (408, 429) and error.code < 500:
                    is_json = error.headers.get_content_type() == "application/json"  # A proxy may respond with HTML.
                    body = json.load(error) if is_json else {}
                    raise Refused(f"{method} {path.split('?')[0]}", error.code, body) from None
                retry_after = error.headers.get("Retry-After", "")
            except (OSError, http.client.HTTPException, ValueError):
                pass  # The connection failed, or the response is incomplete.
            time.sleep(max(backoff, int(retry_after) if retry_after.isdecimal() else 0))
            backoff = min(backoff * 2, 60)


def redeem_codes(db, api, codes):
    """Redeems the new codes. A repeated request returns the same link, so a code needs no idempotency key."""
    with db:
        db.executemany("INSERT OR IGNORE INTO link_code (code) VALUES (?)", [(code,) for code in codes])
    for (code,) in db.execute("SELECT code FROM link_code WHERE outcome IS NULL").fetchall():
        try:
            link = api.post("/animal-links", {"code": code})["link"]
        except Refused as error:
            if error.code != "link_code_invalid":
                raise
            print("A link code is not valid", flush=True)
            with db:
                db.execute("UPDATE link_code SET outcome = ? WHERE code = ?", (error.code, code))
            continue
        branch = api.get("/clinic/context")["branches"][0]
        tomorrow = datetime.now(timezone.utc) + timedelta(days=1)
        booking = {"branchId": branch["id"], "animalId": link["animal"]["id"], "scheduledAt": tomorrow.isoformat()}
        # One transaction stores the link and the booking with its key, before the booking is sent.
        with db:
            db.execute("UPDATE link_code SET outcome = ? WHERE code = ?", (link["id"], code))
            db.execute("INSERT INTO booking VALUES (?, ?, NULL)", (str(uuid.uuid4()), json.dumps(booking)))


def send_bookings(db, api):
    """Sends the bookings without a response. Repetitions have the same key, so they create nothing again."""
    for key, request in db.execute("SELECT idempotency_key, request FROM booking WHERE outcome IS NULL").fetchall():
        try:
            outcome = api.post("/appointments", json.loads(request), **{"Idempotency-Key": key})["appointment"]["id"]
        except Refused as error:
            if error.status != 422:
                raise
            outcome = error.code
            print(error, flush=True)
        with db:
            db.execute("UPDATE booking SET outcome = ? WHERE idempotency_key = ?", (outcome, key))


def upsert(db, appointment):
    record = {name: value for name, value in appointment.items() if name != "notes"}  # Events have no notes.
    db.execute(UPSERT, (record["id"], record["revision"], json.dumps(record)))


def read_calendar(db, api, cursor):
    """Replaces the copy. The cursor is older than this read, so the feed then repeats what changes in the meantime."""
    appointments, since, has_more = [], FIRST_DAY, True
    while has_more:
        page = api.get("/appointments", updatedSince=since, limit=250)
        appointments += page["appointments"]
        since, has_more = page["changes"]["cursor"], page["changes"]["hasMore"]
    with db:
        db.execute("DELETE FROM appointment")
        for appointment in appointments:
            upsert(db, appointment)
        db.execute("INSERT OR REPLACE INTO feed VALUES (1, ?, ?)", (cursor, time.time()))
    print(f"read {len(appointments)} appointments", flush=True)


def follow_feed(db, api):
    while True:
        cursor, read_at = db.execute("SELECT cursor, read_at FROM feed").fetchone() or (None, 0)
        try:
            if time.time() - read_at > READ_AGAIN_SECONDS:
                read_calendar(db, api, cursor or api.get("/events", after="latest")["cursor"])
                continue
            page = api.get("/events", after=cursor, wait=25, limit=100)
            if any(event["type"] in VISIBILITY_EVENTS for event in page["events"]):
                read_calendar(db, api, page["cursor"])
                continue
        except Refused as error:
            if error.code != "unknown_cursor":
                raise
            with db:
                db.execute("DELETE FROM feed")
            continue
        with db:  # One transaction stores the changes and the cursor.
            for event in page["events"]:
                if event["type"].startswith("appointment."):
                    upsert(db, event["data"]["appointment"])
            db.execute("UPDATE feed SET cursor = ?", (page["cursor"],))
        for event in page["events"]:
            print(event["type"], event["id"], flush=True)


db = sqlite3.connect(os.environ["STATE"], timeout=60)
db.executescript(SCHEMA)
if sys.argv[1:] == ["--print"]:
    print(json.dumps([json.loads(record) for (record,) in db.execute("SELECT record FROM appointment ORDER BY id")]))
else:
    partner_api = PartnerApi(*(os.environ[name] for name in ("API", "CLIENT_ID", "CLIENT_SECRET", "CLINIC_ID")))
    try:
        redeem_codes(db, partner_api, sys.argv[1:])
        send_bookings(db, partner_api)
        follow_feed(db, partner_api)
    except Refused as error:  # For example, the clinic has withdrawn its approval.
        sys.exit(str(error))
