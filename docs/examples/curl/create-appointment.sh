# Create an appointment for tomorrow. If no response arrives, repeat the last command with the same key.
IDEMPOTENCY_KEY=guide-$(date +%s)
APPOINTMENT=$(jq --null-input --arg branch "$BRANCH_ID" --arg animal "$ANIMAL_ID" \
  '{branchId: $branch, animalId: $animal, scheduledAt: (now + 86400 | todate), notes: "Vaccination"}')
curl --silent --show-error --fail-with-body --retry 5 --header "Authorization: Bearer $TOKEN" \
  --header "X-SERVICE-Clinic-ID: $CLINIC_ID" --header "Idempotency-Key: $IDEMPOTENCY_KEY" \
  --json "$APPOINTMENT" "$API/appointments" | jq .
