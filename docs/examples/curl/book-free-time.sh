# Book the first free time of the branch. If no response arrives, repeat the last command with the same key.
IDEMPOTENCY_KEY=booking-$(date +%s)
BOOKING=$(curl --silent --show-error --fail-with-body --header "Authorization: Bearer $TOKEN" \
  --header "X-SERVICE-Clinic-ID: $CLINIC_ID" "$API/slots?branchId=$BRANCH_ID&durationMinutes=30&limit=1" |
  jq --arg branch "$BRANCH_ID" --arg animal "$ANIMAL_ID" '{branchId: $branch, animalId: $animal, durationMinutes: 30,
    scheduledAt: .slots[0].startsAt, resourceId: .slots[0].resourceIds[0]}')
curl --silent --show-error --fail-with-body --retry 5 --header "Authorization: Bearer $TOKEN" \
  --header "X-SERVICE-Clinic-ID: $CLINIC_ID" --header "Idempotency-Key: $IDEMPOTENCY_KEY" \
  --json "$BOOKING" "$API/appointments" | jq .
