/*
 * Model of webhook deliveries: match, claim, send, outcome, retry and replay by two dispatchers that share one database.
 * A dispatcher can be killed between any two steps, and a lease can end while its attempt is still in progress, because
 * it expires or its sender has lost the session.
 *
 * Check all states with spin and a C compiler, in an empty folder, because spin writes files. Each command takes less
 * than two minutes and 2 GB of memory:
 *
 *   spin -search -O2 -m100000 <path>/webhook-delivery.pml
 *   spin -DDELIVERIES=2 -DMAX_CRASHES=1 -DMAX_EARLY_EXPIRIES=1 -DMAX_REPLAYS=0 -search -O2 -m100000 <path>/webhook-delivery.pml
 *
 * With -DORDERED=1, the deliveries are those of one appointment to an endpoint that gets its events in order:
 *
 *   spin -DORDERED=1 -DDELIVERIES=3 -DMAX_CRASHES=1 -DMAX_EARLY_EXPIRIES=0 -DMAX_REPLAYS=0 -search -O2 -m100000 <path>/webhook-delivery.pml
 *   spin -DORDERED=1 -DDELIVERIES=2 -DMAX_CRASHES=1 -DMAX_EARLY_EXPIRIES=1 -DMAX_REPLAYS=0 -search -O2 -m100000 <path>/webhook-delivery.pml
 *   spin -DORDERED=1 -DDELIVERIES=2 -DMAX_CRASHES=0 -DMAX_EARLY_EXPIRIES=0 -DMAX_REPLAYS=1 -search -O2 -m100000 <path>/webhook-delivery.pml
 *
 * With -DUNMATCHED=1, the endpoint does not get the first event. With -DMAX_RESENDS=1, the relay can start again once and
 * publish messages again:
 *
 *   spin -DORDERED=1 -DDELIVERIES=2 -DMAX_RESENDS=1 -DMAX_CRASHES=0 -DMAX_EARLY_EXPIRIES=0 -DMAX_REPLAYS=0 -search -O2 -m100000 <path>/webhook-delivery.pml
 *   spin -DORDERED=1 -DDELIVERIES=2 -DUNMATCHED=1 -DMAX_RESENDS=1 -DMAX_CRASHES=0 -DMAX_EARLY_EXPIRIES=0 -DMAX_REPLAYS=0 -search -O2 -m100000 <path>/webhook-delivery.pml
 *
 * All results must be "errors: 0". With -DREADS_LOG=0 in addition, the last command finds that a message waits forever.
 *
 * The checked properties are the assertions:
 *
 * - No delivery is lost: if no step is left, every delivery has ended and every message is acknowledged.
 * - No attempt is unrecorded: a request is sent only after its attempt is committed, and each request has its own attempt.
 * - No two dispatchers hold a claim of the same delivery at the same time, unless a lease expired early.
 * - A delivery has a row in `pending_delivery` exactly while its status is pending.
 * - The retry schedule counts exactly the recorded outcomes of a round.
 * - Ordered: an attempt starts only if all earlier events are matched and none of their deliveries is pending.
 * - Ordered: the receiver accepts a later event before an earlier one only if the earlier delivery has failed before.
 * - Ordered: the earliest pending delivery, and no other, is released. So no held delivery waits forever.
 *
 * An `atomic` block is one committed transaction, or one step outside the database. Transactions that add or end ordered
 * deliveries of one endpoint hold the same advisory lock, so they are one step even if they have several statements. The
 * model leaves out slots, rate limits, times and the order of due deliveries.
 */
#define DISPATCHERS 2
#ifndef DELIVERIES
#define DELIVERIES 1
#endif
#ifndef MAX_CRASHES
#define MAX_CRASHES 3
#endif
#ifndef MAX_EARLY_EXPIRIES
#define MAX_EARLY_EXPIRIES 2
#endif
#ifndef MAX_REPLAYS
#define MAX_REPLAYS 1
#endif
#ifndef ORDERED
#define ORDERED 0
#endif
#ifndef MAX_RESENDS
#define MAX_RESENDS 0
#endif
/* Number of events, from the first, that do not match the endpoint. */
#ifndef UNMATCHED
#define UNMATCHED 0
#endif
/* If 1, a dispatcher can match the events before an event itself. */
#ifndef READS_LOG
#define READS_LOG 1
#endif
#define ATTEMPTS_PER_ROUND 2

mtype:status = { absent, pending, delivered, failed };
mtype:phase = { idle, locked, claimed, succeeded, failing };

#define BIT(n) (1 << (n))

/*
 * JetStream: a message is delivered again until it is acknowledged. One bit for each event message, in the order of the
 * stream. A message that the relay published again is behind all others.
 */
#define COPIES (DELIVERIES * (1 + MAX_RESENDS))
short unacked = BIT(DELIVERIES) - 1;
#define IS_UNACKED(k) (unacked & BIT(k))
bool replayUnacked[DELIVERIES];

/* Table webhooks.delivery. */
mtype:status status[DELIVERIES] = absent;
bool isReplayed[DELIVERIES];             /* replay_position is the position of the request */

/* Table webhooks.pending_delivery. */
bool isPending[DELIVERIES];
byte attemptCount[DELIVERIES];
byte roundAttemptCount[DELIVERIES];
bool isLeased[DELIVERIES];               /* lease_expires_at is in the future */
bool isLocked[DELIVERIES];               /* row lock of a claim that is not committed */
bool isHeld[DELIVERIES];

/* The event is matched with the endpoint, and has a delivery if it matches. */
bool isMatched[DELIVERIES];

/* Memory of the relay: the checkpoint waits for the message that was published again. */
bool isResent[DELIVERIES];
byte resends;

/* Table webhooks.relay_checkpoint: number of events, from the first, whose messages are acknowledged. */
byte checkpoint;

/* Table webhooks.attempt: one bit for each attempt number. */
short recordedAttempts[DELIVERIES];
short knownOutcomes[DELIVERIES];

/* Requests that the receiver got: one bit for each attempt number. */
short requests[DELIVERIES];
/* Deliveries that the receiver has accepted, and deliveries that have failed after their last retry. */
bool isAccepted[DELIVERIES];
bool hasFailed[DELIVERIES];

/* Memory of each dispatcher. A crash clears it. */
#define AT(p, d) (p) * DELIVERIES + (d)
#define AT_COPY(p, k) (p) * COPIES + (k)
mtype:phase phase[DISPATCHERS * DELIVERIES] = idle;
byte number[DISPATCHERS * DELIVERIES];
bool holdsLease[DISPATCHERS * DELIVERIES];
bool hasInserted[DISPATCHERS * COPIES];
bool hasReplayed[DISPATCHERS * DELIVERIES];

byte crashes, earlyExpiries, replays[DELIVERIES];
/* Recorded failures of the current round, counted independently of the table. */
byte failuresInRound[DELIVERIES];

inline checkRow(d) {
  assert(isPending[d] == (status[d] == pending));
  assert(!isPending[d] || roundAttemptCount[d] == failuresInRound[d]);
  checkReleased()
}

/* Loop variables. They are 0 after each step, so that they add no states. */
byte i, n, earliest;

#define NONE DELIVERIES

/* Sets `earliest` to the first delivery with the condition, from delivery `first` on. */
#define FIND_EARLIEST(first, condition) \
  earliest = NONE; \
  for (i : first .. DELIVERIES - 1) { \
    if \
    :: earliest == NONE && (condition) -> earliest = i \
    :: else \
    fi \
  } \
  i = 0

/* The earliest pending delivery is released. All others are held. */
inline checkReleased() {
#if ORDERED
  FIND_EARLIEST(0, isPending[i]);
  if
  :: earliest < NONE ->
    assert(!isHeld[earliest]);
    FIND_EARLIEST(earliest + 1, isPending[i] && !isHeld[i]);
    assert(earliest == NONE)
  :: else
  fi;
  earliest = 0
#else
  skip
#endif
}

/* Releases the earliest held delivery, unless a delivery is released. */
inline releaseNext() {
#if ORDERED
  FIND_EARLIEST(0, isPending[i] && !isHeld[i]);
  if
  :: earliest == NONE ->
    FIND_EARLIEST(0, isPending[i]);
    if
    :: earliest < NONE -> isHeld[earliest] = false
    :: else
    fi
  :: else
  fi;
  earliest = 0
#else
  skip
#endif
}

/* Holds deliveries that are later than delivery d, which was added as held. Then releases the earliest. */
inline arrange(d) {
#if ORDERED
  for (i : d + 1 .. DELIVERIES - 1) {
    if
    :: isPending[i] && isHeld[d] -> isHeld[i] = true
    :: else
    fi
  }
  i = 0;
#endif
  releaseNext()
}

/* All earlier events are matched: the checkpoint has passed them, or the delivery of this event or the one before exists. */
#if ORDERED
#define IS_IN_ORDER(d) (d == 0 || checkpoint >= d || status[d] != absent || status[(d) - 1] != absent)
#else
#define IS_IN_ORDER(d) true
#endif

/* Holding a delivery waits for the row lock of a claim. */
#define IS_LATER_UNLOCKED(d) (d + 1 >= DELIVERIES || !isLocked[DELIVERIES - 1]) && (d + 2 >= DELIVERIES || !isLocked[DELIVERIES - 2])

/* The attempt may start: all earlier events are matched, and none of their deliveries is pending. */
inline checkEarlier(d) {
#if ORDERED
  FIND_EARLIEST(0, i < d && (isPending[i] || !isMatched[i]));
  assert(earliest == NONE);
  earliest = 0
#else
  skip
#endif
}

/* The receiver has accepted no later event, unless this delivery has failed before. */
inline checkAccepted(d) {
#if ORDERED
  if
  :: !isAccepted[d] && !hasFailed[d] ->
    FIND_EARLIEST(d + 1, isAccepted[i]);
    assert(earliest == NONE);
    earliest = 0
  :: else
  fi;
  isAccepted[d] = true
#else
  skip
#endif
}

/* Inserts the delivery, unless it exists. */
inline insert(d) {
  if
  :: d >= UNMATCHED && status[d] == absent ->
    status[d] = pending;
    isPending[d] = true;
    isHeld[d] = ORDERED;
    arrange(d)
  :: else
  fi;
  isMatched[d] = true;
  checkRow(d)
}

/* Processes message k, which is about event d. The acknowledgement is a separate step. */
inline match(p, d, k) {
  atomic {
    IS_UNACKED(k) && !hasInserted[AT_COPY(p, k)] && IS_IN_ORDER(d) ->
    insert(d);
    hasInserted[AT_COPY(p, k)] = true
  }
}

/* The lease of a claim. */
inline lease(p, d) {
  attemptCount[d]++;
  isLeased[d] = true;
  recordedAttempts[d] = recordedAttempts[d] | BIT(attemptCount[d]);
  phase[AT(p, d)] = claimed;
  number[AT(p, d)] = attemptCount[d];
  assert(!holdsLease[AT(1 - p, d)]);
  holdsLease[AT(p, d)] = true
}

/* Inserts a delivery without order, and claims it in the same transaction. */
inline matchAndClaim(p, d, k) {
#if ORDERED
  false
#else
  atomic {
    IS_UNACKED(k) && !hasInserted[AT_COPY(p, k)] && status[d] == absent && phase[AT(p, d)] == idle ->
    insert(d);
    lease(p, d);
    hasInserted[AT_COPY(p, k)] = true
  }
#endif
}

/* Processes a message together with the earlier events, which are read from the log. */
inline matchWithEarlier(p, d, k) {
  atomic {
    READS_LOG && IS_UNACKED(k) && !hasInserted[AT_COPY(p, k)] && !IS_IN_ORDER(d) ->
    for (n : checkpoint .. d) {
      insert(n)
    }
    n = 0;
    hasInserted[AT_COPY(p, k)] = true
  }
}

inline ackEvent(p, k) {
  atomic { hasInserted[AT_COPY(p, k)] -> unacked = unacked & ~BIT(k); hasInserted[AT_COPY(p, k)] = false }
}

/* SELECT ... FOR UPDATE SKIP LOCKED. A dispatcher does not claim a delivery that it still reserves. */
inline lock(p, d) {
  atomic {
    isPending[d] && !isHeld[d] && !isLeased[d] && !isLocked[d] && phase[AT(p, d)] == idle ->
    isLocked[d] = true;
    phase[AT(p, d)] = locked
  }
}

/* Leases the delivery and records the attempt. */
inline commitClaim(p, d) {
  atomic {
    phase[AT(p, d)] == locked ->
    checkEarlier(d);
    isLocked[d] = false;
    lease(p, d)
  }
}

inline send(p, d) {
  atomic {
    phase[AT(p, d)] == claimed ->
    assert(recordedAttempts[d] & BIT(number[AT(p, d)]));
    assert(!(requests[d] & BIT(number[AT(p, d)])));
    requests[d] = requests[d] | BIT(number[AT(p, d)]);
    if
    :: phase[AT(p, d)] = succeeded; checkAccepted(d)
    :: phase[AT(p, d)] = failing
    fi
  }
}

inline endDelivery(d, newStatus) {
  isPending[d] = false;
  isLeased[d] = false;
  roundAttemptCount[d] = 0;
  failuresInRound[d] = 0;
  isHeld[d] = false;
  hasFailed[d] = hasFailed[d] || (ORDERED && newStatus == failed);
  status[d] = newStatus;
  releaseNext()
}

inline forget(p, d) {
  phase[AT(p, d)] = idle;
  number[AT(p, d)] = 0;
  holdsLease[AT(p, d)] = false
}

/* A success ends the delivery even if the lease has expired. A failure counts only if it is the latest attempt's. */
inline commitOutcome(p, d) {
  atomic {
    /* The statement waits for the row lock of a claim that is not committed. */
    (phase[AT(p, d)] == succeeded || phase[AT(p, d)] == failing) && !isLocked[d] ->
    knownOutcomes[d] = knownOutcomes[d] | BIT(number[AT(p, d)]);
    if
    :: isPending[d] && phase[AT(p, d)] == succeeded -> endDelivery(d, delivered)
    :: isPending[d] && phase[AT(p, d)] == failing && attemptCount[d] == number[AT(p, d)] ->
      roundAttemptCount[d]++;
      failuresInRound[d]++;
      isLeased[d] = false;
      if
      :: roundAttemptCount[d] == ATTEMPTS_PER_ROUND -> endDelivery(d, failed)
      :: else
      fi
    :: else
    fi;
    forget(p, d);
    checkRow(d)
  }
}

/* A partner requests a replay of a failed delivery. */
inline requestReplay(d) {
  atomic {
    status[d] == failed && replays[d] < MAX_REPLAYS && !IS_UNACKED(d) ->
    replays[d]++;
    replayUnacked[d] = true
  }
}

inline startReplay(p, d) {
  atomic {
    replayUnacked[d] && !hasReplayed[AT(p, d)] && IS_LATER_UNLOCKED(d) ->
    if
    :: status[d] == failed && !isReplayed[d] ->
      status[d] = pending;
      isPending[d] = true;
      isReplayed[d] = true;
      isHeld[d] = ORDERED;
      arrange(d)
    :: else
    fi;
    hasReplayed[AT(p, d)] = true;
    checkRow(d)
  }
}

inline ackReplay(p, d) {
  atomic { hasReplayed[AT(p, d)] -> replayUnacked[d] = false; hasReplayed[AT(p, d)] = false }
}

/* Kills the dispatcher and starts it again. The database rolls back an uncommitted claim. Leases stay. */
inline crash(p) {
  atomic {
    crashes < MAX_CRASHES ->
    crashes++;
    byte lost = 0;
    do
    :: lost < DELIVERIES ->
      if
      :: phase[AT(p, lost)] == locked -> isLocked[lost] = false
      :: else
      fi;
      hasInserted[AT_COPY(p, lost)] = false;
      hasInserted[AT_COPY(p, lost + COPIES - DELIVERIES)] = false;
      hasReplayed[AT(p, lost)] = false;
      forget(p, lost);
      lost++
    :: else -> break
    od;
    lost = 0
  }
}

#define IS_HELD(d) (holdsLease[AT(0, d)] || holdsLease[AT(1, d)])

/* A lease ends after its holder was killed or, rarely, while its holder is still working. */
inline expireLease(d) {
  atomic {
    isLeased[d] && (!IS_HELD(d) || earlyExpiries < MAX_EARLY_EXPIRIES) ->
    if
    :: IS_HELD(d) -> earlyExpiries++; holdsLease[AT(0, d)] = false; holdsLease[AT(1, d)] = false
    :: else
    fi;
    isLeased[d] = false
  }
}

/* Number of the message for which the checkpoint waits. */
#define NEXT_COPY (checkpoint + (isResent[checkpoint % DELIVERIES] -> DELIVERIES : 0))

/* The relay moves its checkpoint past a message if this message and all before it in the stream are acknowledged. */
inline moveCheckpoint() {
#if ORDERED
  atomic { checkpoint < DELIVERIES && (unacked & (BIT(NEXT_COPY + 1) - 1)) == 0 -> checkpoint++ }
#else
  false
#endif
}

/* The relay starts again at its checkpoint. The server drops a message only if no dispatcher has received it yet. */
inline restartRelay() {
#if MAX_RESENDS
  atomic {
    resends < MAX_RESENDS ->
    resends++;
    for (i : checkpoint .. DELIVERIES - 1) {
      if
      :: isResent[i] = true; unacked = unacked | BIT(i + DELIVERIES)
      :: IS_UNACKED(i)
      fi
    }
    i = 0
  }
#else
  false
#endif
}

#if MAX_RESENDS
#define EVENT_STEPS(p, d) \
  :: match(p, d, d) :: matchWithEarlier(p, d, d) :: ackEvent(p, d) \
  :: match(p, d, d + DELIVERIES) :: matchWithEarlier(p, d, d + DELIVERIES) :: ackEvent(p, d + DELIVERIES)
#else
#define EVENT_STEPS(p, d) \
  :: match(p, d, d) :: matchAndClaim(p, d, d) :: matchWithEarlier(p, d, d) :: ackEvent(p, d)
#endif

#define DISPATCHER_STEPS(p, d) \
  EVENT_STEPS(p, d) :: lock(p, d) :: commitClaim(p, d) :: send(p, d) :: commitOutcome(p, d) \
  :: startReplay(p, d) :: ackReplay(p, d)

active [DISPATCHERS] proctype Dispatcher() {
end:
  do
  DISPATCHER_STEPS(_pid, 0)
#if DELIVERIES > 1
  DISPATCHER_STEPS(_pid, 1)
#endif
#if DELIVERIES > 2
  DISPATCHER_STEPS(_pid, 2)
#endif
  :: crash(_pid)
  od
}

inline checkEnd(d) {
  assert(!unacked && !replayUnacked[d]);
  assert((d < UNMATCHED) == (status[d] == absent));
  assert(d < UNMATCHED || status[d] == delivered || status[d] == failed);
  assert(!isPending[d] && !isLeased[d] && !isLocked[d] && !isHeld[d]);
  assert(isReplayed[d] == (replays[d] > 0));
  /* Every request has a recorded attempt. An outcome is recorded only for a request that was sent. */
  assert((requests[d] & recordedAttempts[d]) == requests[d]);
  assert((knownOutcomes[d] & requests[d]) == knownOutcomes[d])
}

/* The clock and the partners. When no step is left, checks the result. */
active proctype Environment() {
  do
  :: expireLease(0) :: requestReplay(0)
#if DELIVERIES > 1
  :: expireLease(1) :: requestReplay(1)
#endif
#if DELIVERIES > 2
  :: expireLease(2) :: requestReplay(2)
#endif
  :: moveCheckpoint() :: restartRelay()
  :: timeout -> break
  od;
  checkEnd(0);
#if DELIVERIES > 1
  checkEnd(1);
#endif
#if DELIVERIES > 2
  checkEnd(2)
#endif
  skip
}
