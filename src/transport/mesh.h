/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The memory that the ranks of a group share: flat, without pointers, all zeros at first. Every rank
 * has a view of its own (struct eplb_mesh), because every process maps it elsewhere.
 *
 *   head | votes | deaths | members [n] | wants [n][max_ops] | links [n][n]
 *
 *   head     decision word, barrier
 *   votes    one bit per rank (see decision.h)
 *   deaths   one bit per rank, 64 to a word
 *   member   a rank's bell
 *   want     a receive that its rank has posted and that a sender may answer
 *   link     from rank to rank: a pipe for transfers, a pipe for collectives, and a count of the wants
 *            that the destination has announced to the source; then the rings of the two pipes
 *
 * A rank that waits sleeps on its bell: whoever changes something that it may wait for rings. Who knows how
 * many rings must come before it can go on sleeps until then: of n ranks that exchange messages, each would
 * else be woken up to n - 1 times, mostly for nothing.
 *
 * Ranks may be processes, and one that has lost its mind may write anything anywhere. So whatever is
 * read here is a number to be judged, never one to be trusted: it may end an operation, but leads no
 * rank out of its own memory, into an assertion, or into a loop without end. What such a rank spoils
 * for others (bells, barriers, marks of deaths) ends when it has been killed and buried: the burial
 * sets its mark whatever stood there, and a mark that is set ends all that blocks.
 */
#ifndef TRANSPORT_MESH_H
#define TRANSPORT_MESH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/arena.h"
#include "eplb/status.h"
#include "transport/decision.h"
#include "transport/pipe.h"

/** Most outstanding operations of one rank. */
#define EPLB_MAX_OPS 65536

/** Largest ring of one pipe: a fragment's length is 32 bits. */
#define EPLB_MAX_RING_BYTES (UINT32_C(1) << 31)

/** The sizes of a group. All ranks of one group use the same. */
struct eplb_mesh_limits {
    int32_t num_ranks;            /* 1 to EPLB_MAX_RANKS */
    int32_t max_ops;              /* of one rank, 1 to EPLB_MAX_OPS */
    size_t transfer_ring_bytes;   /* per pair of ranks: a power of two, EPLB_MIN_RING_BYTES to
                                     EPLB_MAX_RING_BYTES */
    size_t collective_ring_bytes; /* likewise */
};

/* ---- shared structs; all fields start as zeros ---- */

struct eplb_mesh_head {
    _Alignas(EPLB_CACHE_LINE) _Atomic uint64_t decision;
    _Alignas(EPLB_CACHE_LINE) _Atomic uint64_t arrivals; /* at barriers, ever, of all ranks */
};

struct eplb_mesh_member {
    _Alignas(EPLB_CACHE_LINE) _Atomic uint32_t bell; /* raised by every ring */
    _Atomic uint32_t sleepers;                       /* threads that may sleep on the bell */
    _Atomic uint32_t num_wants;                      /* its wants from this index on were never used */
    _Atomic uint32_t patient;                        /* 1: a thread sleeps until the bell reaches `awaited` */
    _Atomic uint32_t awaited;
};

/** Written by the rank that receives; its ticket is 0 while the other fields change. */
struct eplb_mesh_want {
    _Alignas(EPLB_CACHE_LINE) _Atomic uint64_t ticket; /* unique in the life of the rank; 0: nothing wanted */
    _Atomic uint64_t token;
    _Atomic uint64_t size;
    _Atomic uint32_t from; /* the rank that shall send */
    _Atomic uint32_t slot;
    _Atomic uint32_t chunk;
};

struct eplb_mesh_link {
    struct eplb_pipe_positions transfer;
    struct eplb_pipe_positions collective;
    _Alignas(EPLB_CACHE_LINE) _Atomic uint64_t announced; /* wants that the destination has posted, ever */
};

_Static_assert(offsetof(struct eplb_mesh_head, decision) == 0, "layout of the head");
_Static_assert(offsetof(struct eplb_mesh_head, arrivals) == 64, "layout of the head");
_Static_assert(sizeof(struct eplb_mesh_head) == 128, "layout of the head");
_Static_assert(offsetof(struct eplb_mesh_member, num_wants) == 8, "layout of a member");
_Static_assert(offsetof(struct eplb_mesh_member, awaited) == 16, "layout of a member");
_Static_assert(sizeof(struct eplb_mesh_member) == 64, "layout of a member");
_Static_assert(offsetof(struct eplb_mesh_want, from) == 24, "layout of a want");
_Static_assert(offsetof(struct eplb_mesh_want, chunk) == 32, "layout of a want");
_Static_assert(sizeof(struct eplb_mesh_want) == 64, "layout of a want");
_Static_assert(offsetof(struct eplb_mesh_link, collective) == 128, "layout of a link");
_Static_assert(offsetof(struct eplb_mesh_link, announced) == 256, "layout of a link");
_Static_assert(sizeof(struct eplb_mesh_link) == 320, "layout of a link");

/* ---- one rank's view ---- */

/** How a thread of this process sleeps on a bell and is woken. Given by the shell. */
struct eplb_waker {
    void *context;
    /**
     * Looks at the bell for a short time, until `deadline` at the latest, without a system call; whether
     * it has another value than `heard`. A ring that comes meanwhile costs the ringer no call either.
     * NULL: one sleeps at once.
     */
    bool (*spin)(void *context, const _Atomic uint32_t *bell, uint32_t heard, int64_t deadline);
    /**
     * Blocks while the rank's bell has the value `heard`, until `deadline` at the latest
     * (nanoseconds on eplb_clock_system()). May return without cause.
     */
    void (*sleep)(void *context, int32_t rank, const _Atomic uint32_t *bell, uint32_t heard,
                  int64_t deadline);
    /** Wakes all that sleep on the rank's bell, whose value has changed. Not blocking. */
    void (*wake)(void *context, int32_t rank, _Atomic uint32_t *bell);
};

struct eplb_mesh {
    struct eplb_mesh_limits limits;
    struct eplb_waker waker;
    struct eplb_mesh_head *head;
    _Atomic uint64_t *votes;
    _Atomic uint64_t *deaths;         /* bit `rank % 64` of word `rank / 64` */
    struct eplb_mesh_member *members; /* [num_ranks] */
    struct eplb_mesh_want *wants;     /* [num_ranks][max_ops] */
    unsigned char *links;             /* [num_ranks][num_ranks], by source, then destination; with rings */
};

/** Deadline of a wait that only a ring ends. */
#define EPLB_NO_DEADLINE INT64_MAX

/** Checks the limits: EPLB_INVALID with a sentence that names the value. */
enum eplb_status eplb_mesh_limits_check(const struct eplb_mesh_limits *limits, struct eplb_error *error);

/** Takes the shared memory from an arena (which may only measure) and makes a view of it. */
struct eplb_mesh eplb_mesh_take(struct eplb_arena *arena, const struct eplb_mesh_limits *limits,
                                const struct eplb_waker *waker);

/** The shared parts of the way from one rank to another. */
struct eplb_mesh_link *eplb_mesh_link(const struct eplb_mesh *mesh, int32_t from, int32_t to);
struct eplb_pipe_end eplb_mesh_transfer_pipe(const struct eplb_mesh *mesh, int32_t from, int32_t to);
struct eplb_pipe_end eplb_mesh_collective_pipe(const struct eplb_mesh *mesh, int32_t from, int32_t to);
struct eplb_mesh_want *eplb_mesh_want(const struct eplb_mesh *mesh, int32_t rank, int32_t index);
struct eplb_decision_record eplb_mesh_decision(const struct eplb_mesh *mesh);

/** Says that something changed which a thread of the rank may wait for. */
void eplb_mesh_ring(const struct eplb_mesh *mesh, int32_t rank);

/** The same for all ranks; it also wakes those that wait for more rings. */
void eplb_mesh_ring_all(const struct eplb_mesh *mesh);

/** The bell as it stands: to be read before one looks at what one would wait for. */
uint32_t eplb_mesh_hear(const struct eplb_mesh *mesh, int32_t rank);

/** Spins, then sleeps, until the rank's bell has been rung since it was `heard`, or until the deadline. */
void eplb_mesh_sleep(const struct eplb_mesh *mesh, int32_t rank, uint32_t heard, int64_t deadline);

/**
 * The same, but may sleep until the bell has been rung `rings` times since it was `heard`: when at least so
 * many will come, whatever this rank does meanwhile. Returns earlier without cause, and when all are rung.
 * One thread of the rank at a time.
 */
void eplb_mesh_sleep_for(const struct eplb_mesh *mesh, int32_t rank, uint32_t heard, uint32_t rings);

/** Marks a member dead, and rings for all. Idempotent. */
void eplb_mesh_bury(const struct eplb_mesh *mesh, int32_t rank);

bool eplb_mesh_is_dead(const struct eplb_mesh *mesh, int32_t rank);

/** The lowest dead member; EPLB_NO_RANK when there is none. */
int32_t eplb_mesh_first_dead(const struct eplb_mesh *mesh);

#endif
