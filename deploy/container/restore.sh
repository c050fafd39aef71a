#!/bin/sh
# Restores a backup of the profile `backup` into an empty installation, and starts all services. The folder `secrets` must
# be that of the installation that was backed up. See docs/operations/backup.md.
#
#     restore.sh <name of the backup>
set -eu
cd "$(dirname "$0")"
backup=${1:?Name a backup, for example 2026-11-28T020000Z}

[ -z "$(docker-compose ps --quiet)" ] || { echo "The installation is running. A restore needs an empty one." >&2; exit 1; }
[ -d secrets ] || { echo "Copy the folder secrets of the former installation here first." >&2; exit 1; }
./create-secrets.sh
docker-compose --profile restore up --detach --no-deps postgres restore
code=0
docker-compose exec -T restore bash /usr/local/bin/backup restore "$backup" || code=$?
docker-compose --profile restore rm --stop --force restore
if [ $code != 0 ]; then
  echo "Before you try again, delete the volumes: docker-compose --profile '*' down --volumes" >&2
  exit $code
fi

# The other services start when the read models reflect the event log.
docker-compose up --detach --no-deps eventstore nats migrate projection clinic
attempt=0
until docker-compose exec -T projection node -e \
  "fetch('http://127.0.0.1:8080/health/ready').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"; do
  attempt=$((attempt + 1))
  [ $attempt -lt 450 ] || { docker-compose exec -T clinic clinic projection status; exit 1; }
  sleep 2
done
docker-compose exec -T clinic clinic projection verify
docker-compose exec -T clinic clinic retention apply --actor restore
docker-compose up --detach --no-recreate
