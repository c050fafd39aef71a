# Gets an access token, reads the sandbox and creates an appointment.
import json
import os
import time
import urllib.error
import urllib.request
import uuid
from datetime import datetime, timedelta, timezone

API = os.environ["API"]


def call(method, path, headers, body=None):
    """Sends a request. After 429 and 503, waits and repeats it. This is safe: see "Idempotency" in the guide."""
    data = None if body is None else json.dumps(body).encode()
    all_headers = headers if body is None else {**headers, "Content-Type": "application/json"}
    for attempt in range(1, 6):
        request = urllib.request.Request(API + path, data, all_headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            if error.code not in (429, 503) or attempt == 5:
                raise SystemExit(f"{method} {path}: {error.code} {error.read().decode()}")
            time.sleep(int(error.headers.get("Retry-After", 1)))


token_request = {
    "client_id": os.environ["CLIENT_ID"],
    "client_secret": os.environ["CLIENT_SECRET"],
    "grant_type": "client_credentials",
    "environment": "sandbox",
}
token = call("POST", "/oauth/token", {}, token_request)["access_token"]

authorization = {"Authorization": f"Bearer {token}"}
sandbox = call("GET", "/sandbox", authorization)["sandbox"]

headers = {
    **authorization,
    "X-SERVICE-Clinic-ID": sandbox["clinicId"],
    # Store the key with your booking, so that a retry after a crash uses the same key.
    "Idempotency-Key": str(uuid.uuid4()),
}
response = call("POST", "/appointments", headers, {
    "branchId": sandbox["branches"][0]["id"],
    "animalId": sandbox["animals"][0]["id"],
    "scheduledAt": (datetime.now(timezone.utc) + timedelta(days=1)).isoformat(timespec="seconds"),
    "notes": "Vaccination",
})
print(response["appointment"]["id"], response["appointment"]["status"])
