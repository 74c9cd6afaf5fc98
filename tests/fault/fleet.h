/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A team (e2e/team.h) whose ranks are processes: the group and one channel per rank are segments of
 * shared memory, and the processes are watched by a supervisor. The test's process is the engine.
 *
 * Of e2e/team.h it has what a director calls. A rank that ends without having been killed by
 * fleet_kill ends the program with the supervisor's sentence; so does a wait of a minute.
 */
#ifndef FAULT_FLEET_H
#define FAULT_FLEET_H

#include "e2e/team.h"

struct fleet_params {
    struct team_params team; /* of it: shape, tokens, top_k, traffic, bytes, timeout, jitter, seed */
    const char *instance, *directory;
    size_t padding; /* bytes of every forward's input beside what the rank reads */
    int keep;       /* a descriptor that the ranks inherit; -1: none */
};

/** Small sizes, as team_params_init: three layers of 16 experts, one redundant slot per rank; no jitter. */
void fleet_params_init(struct fleet_params *params, const char *directory, const char *instance,
                       int32_t ranks);

/** Makes the segments and starts the ranks. What was made is given back when something fails. */
enum eplb_status fleet_create(const struct fleet_params *params, struct team **team,
                              struct eplb_error *error);

/** The same; fails the test when it cannot. */
struct team *fleet_start(const struct fleet_params *params);

/** What main begins with: a process that is to be a rank never returns from it. */
void fleet_main(int argc, char **argv);

/* ------------------------------------------------------------------------------------- orders */

/** What a hook of a rank's model does from the next forward on. */
void fleet_set_mood(struct team *team, int32_t rank, enum standin_hook hook, enum standin_mood mood);

/** Sends a live rank SIGSTOP or SIGCONT. */
void fleet_signal(struct team *team, int32_t rank, int signal);

/** Sends SIGKILL; what comes of it is the supervisor's to find. */
void fleet_kill(struct team *team, int32_t rank);

/** Waits until the supervisor has named it. Returns when it did (eplb_clock_system()); 0 at the deadline. */
int64_t fleet_await_named(struct team *team, int32_t rank, int64_t deadline);

/** Lets time pass; fails the program when the rank ends meanwhile. */
void fleet_linger(struct team *team, int32_t rank, int64_t ns);

/* ------------------------------------------------------------------------------------- looking */

int64_t fleet_pid(const struct team *team, int32_t rank);

/** The supervisor's sentence about a rank, valid until the next call. */
const char *fleet_report(struct team *team, int32_t rank);

/** The first rank that was lost, as the supervisor has it; -1: none. */
int32_t fleet_first_lost(struct team *team);

/** What a rank's group said when another one had died, as of its last reply; "" else. */
const char *fleet_bereavement(const struct team *team, int32_t rank);

/** Fails the program unless all live ranks have seen the same commands. */
void fleet_check_commands(const struct team *team);

#endif
