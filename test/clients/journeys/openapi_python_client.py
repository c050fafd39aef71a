"""Journey with the client of openapi-python-client, which is generated into the package partner_api."""

import os
from datetime import datetime, timedelta, timezone
from uuid import uuid4

from partner_api import AuthenticatedClient, Client
from partner_api.api.access_tokens import exchange_token
from partner_api.api.appointments import create_partner_appointment, list_partner_appointments
from partner_api.api.clinic import get_clinic_context
from partner_api.api.sandbox import get_sandbox_state
from partner_api.api.webhook_endpoints import create_webhook_endpoint
from partner_api.models import (
    CreatePartnerAppointmentRequest,
    CreateWebhookEndpointRequest,
    CreateWebhookEndpointRequestEventsItem,
    ExchangeTokenRequest,
    ExchangeTokenRequestEnvironment,
)

token = exchange_token.sync(
    client=Client(base_url=os.environ["API"]),
    body=ExchangeTokenRequest(
        client_id=os.environ["CLIENT_ID"],
        client_secret=os.environ["CLIENT_SECRET"],
        grant_type="client_credentials",
        environment=ExchangeTokenRequestEnvironment.SANDBOX,
    ),
)
client = AuthenticatedClient(base_url=os.environ["API"], token=token.access_token)

sandbox = get_sandbox_state.sync(client=client).sandbox
headers = {"x_service_clinic_id": str(sandbox.clinic_id)}
context = get_clinic_context.sync(client=client, **headers)
print("context", context.clinic.name)


def create(days):
    body = CreatePartnerAppointmentRequest(
        branch_id=context.branches[0].id,
        animal_id=sandbox.animals[0].id,
        scheduled_at=datetime.now(timezone.utc) + timedelta(days=days),
    )
    return create_partner_appointment.sync_detailed(
        client=client, body=body, idempotency_key=str(uuid4()), **headers
    )


creation = create(1)
appointment = creation.parsed.appointment
print("created", appointment.status.value)

position = creation.headers["X-SERVICE-Log-Position"]
page = list_partner_appointments.sync(client=client, x_service_log_position=position, limit=250, **headers)
print("listed", str(any(item.id == appointment.id for item in page.appointments)).lower())

registration = create_webhook_endpoint.sync(
    client=client,
    body=CreateWebhookEndpointRequest(
        url="http://127.0.0.1:9/hooks", events=[CreateWebhookEndpointRequestEventsItem.APPOINTMENT_CREATED]
    ),
    **headers,
)
print("endpoint", registration.endpoint.status.value)

refusal = create(-1)
print("refused", refusal.status_code.value, refusal.parsed.error.value)
