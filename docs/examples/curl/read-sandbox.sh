# Read the sandbox, and keep the ids of its clinic, of a branch and of an animal.
SANDBOX=$(curl --silent --show-error --fail-with-body --header "Authorization: Bearer $TOKEN" "$API/sandbox")
CLINIC_ID=$(echo "$SANDBOX" | jq -r .sandbox.clinicId)
BRANCH_ID=$(echo "$SANDBOX" | jq -r '.sandbox.branches[0].id')
ANIMAL_ID=$(echo "$SANDBOX" | jq -r '.sandbox.animals[0].id')
