/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Processes: who one is, starting one, watching it end.
 *
 * A started process is held by a descriptor (pidfd), never by its number alone: a number can be
 * another process's by the time it is used.
 */
#ifndef OS_PROCESS_H
#define OS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "eplb/status.h"

/** Who a process is, for messages: no two processes ever agree in all of it. */
struct eplb_process_id {
    int64_t pid;
    uint64_t start_time;       /* clock ticks since boot (/proc/PID/stat, field 22); 0: not known */
    uint64_t pid_namespace;    /* inode of /proc/self/ns/pid; 0: not known */
    unsigned char boot_id[16]; /* /proc/sys/kernel/random/boot_id; zeros: not known */
};

/** Fills in this process. What the system does not tell stays 0. */
void eplb_process_identify(struct eplb_process_id *id);

/**
 * Whether that process is seen alive from here: 1 alive, 0 gone (or its number was given away), -1
 * cannot be told (another namespace or boot). For messages, and for whether a short wait may pay; nothing
 * may be decided by it.
 */
int eplb_process_seen(const struct eplb_process_id *id);

/** Exit code of a process whose end something else has taken: a wait of the host's, an ignored SIGCHLD. */
#define EPLB_PROCESS_CODE_LOST (-1)

/** How a process ended. */
struct eplb_process_end {
    int exit_code; /* when signal is 0; EPLB_PROCESS_CODE_LOST: not known */
    int signal;    /* that killed it; 0: it exited */
};

/** Writes "exited with code 3" or "was killed by signal 9 (KILL)". Returns text. */
#define EPLB_PROCESS_END_TEXT 64
const char *eplb_process_end_text(const struct eplb_process_end *end, char text[EPLB_PROCESS_END_TEXT]);

/** A child that this process has started. */
struct eplb_process {
    int64_t pid;
    int descriptor; /* pidfd: readable (poll) once the process has ended; -1: none */
};

struct eplb_process_params {
    const char *path;       /* of the program */
    char *const *arguments; /* argv, with the program's name first and NULL last */
    const int *keep;        /* [num_keep] descriptors > 2 that the child inherits at their own numbers */
    int num_keep;           /* all others but 0, 1, 2 are close-on-exec by the house's rule */
};

/**
 * Starts a program with an empty signal mask and default signal actions, in this process's group.
 * Standard input is /dev/null; output and error are inherited.
 *
 * @return EPLB_OK; EPLB_IO with the program's name
 */
enum eplb_status eplb_process_start(const struct eplb_process_params *params, struct eplb_process *process,
                                    struct eplb_error *error);

/** Sends a signal; nothing when the process was reaped. SIGKILL and SIGCONT reach a stopped one too. */
void eplb_process_signal(const struct eplb_process *process, int signal);

/** Reaps the child if it has ended, and closes the descriptor. Not blocking. False once it was reaped. */
bool eplb_process_reap(struct eplb_process *process, struct eplb_process_end *end);

/** As eplb_process_reap, and waits for the end until `deadline` (eplb_clock_system(), INT64_MAX: none). */
bool eplb_process_wait(struct eplb_process *process, int64_t deadline, struct eplb_process_end *end);

/**
 * A descriptor that becomes readable when the process `pid` ends, whether it is a child or not; -1
 * when there is none of that number. Close it.
 */
int eplb_process_watch(int64_t pid);

/** Processors that the calling thread may run on, >= 1. */
int32_t eplb_process_processors(void);

/** CPU time that the calling thread has used, in nanoseconds. */
int64_t eplb_thread_cpu_time(void);

#endif
