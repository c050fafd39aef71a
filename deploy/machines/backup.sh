#!/bin/bash
# Backs up Postgres, and then the node of EventStoreDB on the same machine. Run it every day, as root on the primary of
# Postgres. The archived WAL contains later data keys. See docs/operations/backup.md.
set -euo pipefail
umask 077

NAME=$(date --utc +%FT%H%MZ)
POSTGRES=/var/backups/clinic/postgres/$NAME
EVENTSTORE=/var/backups/clinic/eventstore/$NAME

cd /var/lib/eventstore
install -d -o postgres -g postgres -m 700 "$(dirname "$POSTGRES")"
runuser -u postgres -- pg_basebackup --pgdata "$POSTGRES" --checkpoint fast
runuser -u postgres -- /usr/lib/postgresql/15/bin/pg_verifybackup "$POSTGRES"

# What a checkpoint covers is in the files that are copied later.
mkdir -p "$EVENTSTORE"
cp --preserve ./*.chk "$EVENTSTORE"
cp --preserve --recursive index "$EVENTSTORE"
cp --preserve --sparse=always chunk-* "$EVENTSTORE"

runuser -u postgres -- psql --quiet --dbname clinic --command \
  "UPDATE projection.task_success SET succeeded_at = now() WHERE task = 'backup'"
