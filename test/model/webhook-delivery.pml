/*
 * Model of the webhooks of one appointment to an endpoint that gets its events in order. Projectors write rows, two
 * processes add deliveries, send and replay them, and all share one database. Both processes may believe that they lead
 * the dispatcher. A process can be killed between any two steps. Messages are not in the model, because they only wake
 * the dispatcher, and a model can take each step at any time.
 *
 * Check all states with spin and a C compiler, in an empty folder, because spin writes files. M is the path of this
 * file. Each command takes less than two minutes and 2 GB of memory, and must report "errors: 0":
 *
 *   1  spin -search -O2 -m100000 M
 *   2  spin -DMAX_CRASHES=0 -DEVENTS=3 -DATTEMPTS=1 -search -O2 -m100000 M
 *   3  spin -DMAX_CRASHES=0 -DMAX_FAILOVERS=1 -search -O2 -m100000 M
 *   4  spin -DMAX_QUARANTINES=0 -DMAX_EXPIRIES=1 -search -O2 -m100000 M
 *   5  spin -DMAX_CRASHES=0 -DMAX_QUARANTINES=0 -DMAX_REPLAYS=1 -search -O2 -m100000 M
 *   6  spin -DEVENTS=1 -DMAX_EXPIRIES=1 -DMAX_REPLAYS=1 -search -O2 -m100000 M
 *
 * With -DWITHOUT=<rule> in the given command, spin must report "errors: 1", because the guarantee needs the rule:
 *
 *   rule      command  meaning                                                            guarantee
 *   CAS       3        The checkpoint moves only from where its process expects it.       no delivery is lost
 *   LATE      1        The end of a quarantine records the new rows as late events.       no delivery is lost
 *   RELEASE   1        The dispatcher releases blocked deliveries that were forgotten.    no delivery is lost
 *   SNAPSHOT  1        Late events and the range are read from one snapshot.              order
 *   ALL_LATE  2        The range is empty while a late event is left out.                 order
 *   PASSED    2        A late event that the checkpoint has not passed is in the range.   order
 *   BLOCKED   1        Deliveries are inserted as blocked.                                order
 *   HEAD      5        A unique index allows one released delivery.                       one delivery is due
 *   LEASE     1        A leased delivery is not claimed.                                  one claim
 *   RECORD    1        The claim records the attempt.                                     no unrecorded attempt
 *   LATEST    6        A failure counts only if it is the latest attempt's outcome.       retry schedule
 *
 * An `atomic` block is one committed statement or transaction, or one step outside the database. The statement that adds
 * deliveries has two steps: its snapshot and its commit. So has the release. The model leaves out limits of attempts,
 * times, and events that are set aside or refused, whose order is not guaranteed.
 */
#ifndef EVENTS
#define EVENTS 2
#endif
#ifndef MAX_CRASHES
#define MAX_CRASHES 1
#endif
#ifndef MAX_EXPIRIES
#define MAX_EXPIRIES 0
#endif
#ifndef MAX_REPLAYS
#define MAX_REPLAYS 0
#endif
#ifndef MAX_QUARANTINES
#define MAX_QUARANTINES 1
#endif
#ifndef MAX_FAILOVERS
#define MAX_FAILOVERS 0
#endif
#define PROCESSES 2

/* Rules. With -DWITHOUT=<rule>, the model does not follow this rule. */
#define CAS 1
#define LATE 2
#define RELEASE 3
#define SNAPSHOT 4
#define ALL_LATE 5
#define PASSED 6
#define BLOCKED 7
#define HEAD 8
#define LEASE 9
#define RECORD 10
#define LATEST 11
#ifndef WITHOUT
#define WITHOUT 0
#endif
#define RULE(rule) (WITHOUT != rule)
#ifndef ATTEMPTS
#define ATTEMPTS 2
#endif

mtype:status = { absent, pending, delivered, failed };
mtype:phase = { idle, claimed, succeeded, failing };

#define BIT(n) (1 << (n))
#define FIRST(n) (BIT(n) - 1)
#define NONE EVENTS

/* Read models: number of events that they include, and one bit for each row of public_event. */
byte readPosition, rows;
bool isQuarantined;

/* webhooks.checkpoint as a number of events, and webhooks.late_event. */
byte checkpoint, late;

/* webhooks.delivery, webhooks.pending_delivery and webhooks.attempt, with one bit for each number of an attempt. */
mtype:status status[EVENTS] = absent;
byte attemptCount[EVENTS], failedAttemptCount[EVENTS], recorded[EVENTS], outcomes[EVENTS];
bool isLeased[EVENTS], isBlocked[EVENTS];
bool isReplayRequested;

/* The last commit, if it added deliveries. A failover can lose it. */
bool canLose;
byte formerCheckpoint, formerLate, added;

/* Memory of each process. */
bool leads[PROCESSES], hasSnapshot[PROCESSES], mustHold[PROCESSES], mustRelease[PROCESSES];
byte expected[PROCESSES], seenLate[PROCESSES], seenEnd[PROCESSES], seenRows[PROCESSES];
byte candidate[PROCESSES] = NONE;
#define AT(p, d) (p) * EVENTS + (d)
mtype:phase phase[PROCESSES * EVENTS] = idle;
byte number[PROCESSES * EVENTS];
bool holdsLease[PROCESSES * EVENTS];

/* Requests that the receiver got, and what the assertions remember. */
byte requests[EVENTS], failuresSinceReplay[EVENTS];
byte accepted, everFailed, replayed;
byte crashes, expiries, replays, quarantines, failovers;

/* Loop variables, 0 after each step. */
byte i, earliest;

#define IS_PENDING(d) (status[d] == pending)

/* Sets `earliest` to the first delivery with the condition, or NONE. */
#define FIND_EARLIEST(condition) \
  earliest = NONE; \
  for (i : 0 .. EVENTS - 1) { \
    if \
    :: earliest == NONE && (condition) -> earliest = i \
    :: else \
    fi \
  } \
  i = 0

/* ---- Projectors: each step is a transaction. */

inline project() {
  atomic {
    readPosition < EVENTS ->
    if
    :: !isQuarantined -> rows = rows | BIT(readPosition)
    :: quarantines < MAX_QUARANTINES -> quarantines++; isQuarantined = true
    :: isQuarantined
    fi;
    readPosition++;
    canLose = false
  }
}

/* Replays the stream. The new rows are late, also those that the checkpoint has not passed yet. */
inline endQuarantine() {
  atomic {
    isQuarantined ->
    isQuarantined = false;
    late = late | (RULE(LATE) -> FIRST(readPosition) & ~rows : 0);
    rows = FIRST(readPosition);
    canLose = false
  }
}

/* ---- Dispatcher. */

inline lead(p) {
  atomic { !leads[p] && !hasSnapshot[p] -> leads[p] = true; expected[p] = checkpoint }
}

inline readRange(p) {
  seenEnd[p] = readPosition;
  seenRows[p] = rows
}

/* The range contains the late events that the checkpoint has not passed. */
#define DUE_LATE(p) (RULE(PASSED) -> late & FIRST(expected[p]) : late)

/* The limit of a batch can leave out late events. */
inline takeSnapshot(p) {
  atomic {
    leads[p] && !hasSnapshot[p] && (late || readPosition > expected[p] || checkpoint != expected[p]) ->
    hasSnapshot[p] = true;
    seenLate[p] = DUE_LATE(p);
    readRange(p);
    if
    :: true
    :: (seenLate[p] & (seenLate[p] - 1)) ->
      seenLate[p] = seenLate[p] & ~(seenLate[p] & (seenLate[p] - 1));
      seenEnd[p] = (RULE(ALL_LATE) -> expected[p] : seenEnd[p])
    fi
  }
}

#define IS_SEEN(p, d) ((seenLate[p] & BIT(d)) || ((seenRows[p] & BIT(d)) && d >= expected[p] && d < seenEnd[p]))

inline addDeliveries(p) {
  atomic {
    hasSnapshot[p] ->
    hasSnapshot[p] = false;
    if
    :: !RULE(SNAPSHOT) -> readRange(p)
    :: else
    fi;
    if
    :: (checkpoint == expected[p] || !RULE(CAS)) && seenEnd[p] >= expected[p] ->
      added = 0;
      for (i : 0 .. EVENTS - 1) {
        if
        :: IS_SEEN(p, i) && status[i] == absent -> status[i] = pending; isBlocked[i] = RULE(BLOCKED); added = added | BIT(i)
        :: else
        fi
      }
      i = 0;
      mustHold[p] = mustHold[p] || added;
#if MAX_FAILOVERS
      canLose = true;
      formerCheckpoint = checkpoint;
      formerLate = late;
#else
      added = 0;
#endif
      late = late & ~seenLate[p];
      checkpoint = seenEnd[p];
      expected[p] = seenEnd[p]
    :: checkpoint != expected[p] && RULE(CAS) -> leads[p] = false; expected[p] = 0
    :: checkpoint == expected[p] && seenEnd[p] < expected[p]
    fi;
    seenLate[p] = 0;
    seenEnd[p] = 0;
    seenRows[p] = 0
  }
}

/* Blocks deliveries that are later than a blocked one. */
inline holdLater(p) {
  atomic {
    mustHold[p] ->
    FIND_EARLIEST(IS_PENDING(i) && isBlocked[i]);
    for (i : 0 .. EVENTS - 1) {
      if
      :: i > earliest && IS_PENDING(i) -> isBlocked[i] = true
      :: else
      fi
    }
    i = 0;
    earliest = 0;
    mustHold[p] = false;
    mustRelease[p] = true;
    canLose = false
  }
}

/* Finds the earliest blocked delivery, if no delivery is released. */
inline findHeld(p) {
  FIND_EARLIEST(IS_PENDING(i) && !isBlocked[i]);
  if
  :: earliest == NONE -> FIND_EARLIEST(IS_PENDING(i) && isBlocked[i]); candidate[p] = earliest
  :: else
  fi;
  earliest = 0
}

inline findNext(p) {
  atomic { mustRelease[p] && candidate[p] == NONE -> mustRelease[p] = false; findHeld(p) }
}

#define HAS(d, blocked) ((d) < EVENTS && IS_PENDING((d) % EVENTS) && isBlocked[(d) % EVENTS] == blocked)
#define IS_FORGOTTEN ((HAS(0, 1) || HAS(1, 1) || HAS(2, 1)) && !HAS(0, 0) && !HAS(1, 0) && !HAS(2, 0))

inline findForgotten(p) {
  atomic { RULE(RELEASE) && leads[p] && candidate[p] == NONE && IS_FORGOTTEN -> findHeld(p) }
}

inline release(p) {
  atomic {
    candidate[p] != NONE ->
    FIND_EARLIEST(RULE(HEAD) && IS_PENDING(i) && !isBlocked[i]);
    if
    :: earliest == NONE && IS_PENDING(candidate[p]) && isBlocked[candidate[p]] ->
      isBlocked[candidate[p]] = false;
      canLose = false;
      checkReleased()
    :: else
    fi;
    earliest = 0;
    candidate[p] = NONE
  }
}

inline checkReleased() {
  byte released = 0;
  for (i : 0 .. EVENTS - 1) {
    if
    :: IS_PENDING(i) && !isBlocked[i] -> released++
    :: else
    fi
  }
  i = 0;
  assert(released <= 1);
  released = 0
}

/* ---- Sender. */

inline claim(p, d) {
  atomic {
    IS_PENDING(d) && !isBlocked[d] && (!isLeased[d] || !RULE(LEASE)) && phase[AT(p, d)] == idle ->
    /* All earlier events have deliveries, and these have ended. A replay may arrive later. */
    FIND_EARLIEST(i < d && (status[i] == absent || (IS_PENDING(i) && !(replayed & BIT(i)))));
    assert(earliest == NONE || replayed & BIT(d));
    earliest = 0;
    attemptCount[d]++;
    isLeased[d] = true;
    recorded[d] = recorded[d] | (RULE(RECORD) -> BIT(attemptCount[d]) : 0);
    phase[AT(p, d)] = claimed;
    number[AT(p, d)] = attemptCount[d];
    assert(!holdsLease[AT(1 - p, d)]);
    holdsLease[AT(p, d)] = true;
    canLose = false
  }
}

inline send(p, d) {
  atomic {
    phase[AT(p, d)] == claimed ->
    assert(recorded[d] & BIT(number[AT(p, d)]));
    assert(!(requests[d] & BIT(number[AT(p, d)])));
    requests[d] = requests[d] | BIT(number[AT(p, d)]);
    if
    :: phase[AT(p, d)] = succeeded;
      /* The receiver has accepted no later event, unless this delivery has failed before. */
      assert(((accepted | everFailed) & BIT(d)) || accepted < BIT(d));
      accepted = accepted | BIT(d)
    :: phase[AT(p, d)] = failing
    fi
  }
}

inline forget(p, d) {
  phase[AT(p, d)] = idle;
  number[AT(p, d)] = 0;
  holdsLease[AT(p, d)] = false
}

inline endDelivery(p, d, newStatus) {
  status[d] = newStatus;
  isLeased[d] = false;
  isBlocked[d] = false;
  failedAttemptCount[d] = 0;
  failuresSinceReplay[d] = 0;
  mustRelease[p] = true
}

/* A success ends the delivery even if the lease has ended. */
inline recordOutcome(p, d) {
  atomic {
    phase[AT(p, d)] == succeeded || phase[AT(p, d)] == failing ->
    recorded[d] = recorded[d] | BIT(number[AT(p, d)]);
    outcomes[d] = outcomes[d] | BIT(number[AT(p, d)]);
    if
    :: IS_PENDING(d) && phase[AT(p, d)] == succeeded -> endDelivery(p, d, delivered)
    :: IS_PENDING(d) && phase[AT(p, d)] == failing && (attemptCount[d] == number[AT(p, d)] || !RULE(LATEST)) ->
      failedAttemptCount[d]++;
      isLeased[d] = false;
      if
      :: attemptCount[d] == number[AT(p, d)] -> failuresSinceReplay[d]++
      :: else
      fi;
      assert(failedAttemptCount[d] == failuresSinceReplay[d]);
      if
      :: failedAttemptCount[d] == ATTEMPTS -> everFailed = everFailed | BIT(d); endDelivery(p, d, failed)
      :: else
      fi
    :: else
    fi;
    forget(p, d);
    canLose = false
  }
}

/* A bulk replay queues each failed delivery again, and records its progress in the same transaction. */
inline replay(p) {
  atomic {
    isReplayRequested ->
    for (i : 0 .. EVENTS - 1) {
      if
      :: status[i] == failed -> status[i] = pending; isBlocked[i] = RULE(BLOCKED); replayed = replayed | BIT(i)
      :: else
      fi
    }
    i = 0;
    isReplayRequested = false;
    mustHold[p] = true;
    canLose = false
  }
}

/* ---- Failures. */

inline loseSession(p) {
  hasSnapshot[p] = false;
  seenLate[p] = 0;
  seenEnd[p] = 0;
  seenRows[p] = 0;
  candidate[p] = NONE
}

/* Kills the process and starts it again. Leases stay. */
inline crash(p) {
  atomic {
    crashes < MAX_CRASHES ->
    crashes++;
    loseSession(p);
    leads[p] = false;
    expected[p] = 0;
    mustHold[p] = false;
    mustRelease[p] = false;
    for (i : 0 .. EVENTS - 1) {
      forget(p, i)
    }
    i = 0
  }
}

#define IS_CLAIMED(d) (holdsLease[AT(0, d)] || holdsLease[AT(1, d)])

/* A lease ends after its process was killed or, rarely, while the process is still working. */
inline expireLease(d) {
  atomic {
    isLeased[d] && (!IS_CLAIMED(d) || expiries < MAX_EXPIRIES) ->
    if
    :: IS_CLAIMED(d) -> expiries++; holdsLease[AT(0, d)] = false; holdsLease[AT(1, d)] = false
    :: else
    fi;
    isLeased[d] = false
  }
}

/* Postgres loses the last commit and all sessions. The processes remember the checkpoint. */
inline failOver() {
  atomic {
    canLose && failovers < MAX_FAILOVERS ->
    failovers++;
    canLose = false;
    checkpoint = formerCheckpoint;
    late = formerLate;
    for (i : 0 .. EVENTS - 1) {
      if
      :: added & BIT(i) -> status[i] = absent; isBlocked[i] = false
      :: else
      fi
    }
    i = 0;
    loseSession(0);
    loseSession(1)
  }
}

#define HAS_FAILED (status[0] == failed || status[1 % EVENTS] == failed || status[2 % EVENTS] == failed)

inline requestReplay() {
  atomic {
    replays < MAX_REPLAYS && !isReplayRequested && HAS_FAILED ->
    replays++;
    isReplayRequested = true
  }
}

#define DELIVERY_STEPS(p, d) :: claim(p, d) :: send(p, d) :: recordOutcome(p, d)

active [PROCESSES] proctype Webhooks() {
end:
  do
  :: lead(_pid) :: takeSnapshot(_pid) :: addDeliveries(_pid) :: holdLater(_pid) :: findNext(_pid)
  :: findForgotten(_pid) :: release(_pid) :: replay(_pid) :: crash(_pid)
  DELIVERY_STEPS(_pid, 0)
#if EVENTS > 1
  DELIVERY_STEPS(_pid, 1)
#endif
#if EVENTS > 2
  DELIVERY_STEPS(_pid, 2)
#endif
  od
}

/* The projectors, the clock, the partner and the servers. When no step is left, nothing may be lost. */
active proctype Environment() {
  do
  :: project() :: endQuarantine() :: failOver() :: requestReplay() :: expireLease(0)
#if EVENTS > 1
  :: expireLease(1)
#endif
#if EVENTS > 2
  :: expireLease(2)
#endif
  :: timeout -> break
  od;
  assert(checkpoint == EVENTS && !late && !isReplayRequested);
  for (i : 0 .. EVENTS - 1) {
    assert(status[i] == delivered || status[i] == failed);
    assert(!isLeased[i] && !isBlocked[i]);
    assert((requests[i] & recorded[i]) == requests[i]);
    assert((outcomes[i] & requests[i]) == outcomes[i])
  }
}
