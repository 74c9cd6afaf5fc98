/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "eplb/clock.h"

enum {
    NS_PER_SECOND = 1000000000,
    NAP_NS = 10000000,     /* between looks where the system takes no wait */
    PROC_TEXT = 1024,      /* of /proc/PID/stat, with room to spare */
    STATE_FIELD = 3,       /* of the same */
    START_TIME_FIELD = 22, /* of the same */
    NAME_FIELD = 2,        /* of the same: the name in parentheses, which may hold anything */
    MOST_PROCESSORS = 1 << 20,
};

extern char **environ;

/* ---- who one is ---- */

/* Returns the length; 0 when the file cannot be read. */
static size_t read_start(const char *path, char *text, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t count = read(fd, text, capacity - 1);
    close(fd);
    size_t length = count > 0 ? (size_t)count : 0;
    text[length] = '\0';
    return length;
}

struct process_stat {
    char state;
    uint64_t start_time;
};

/* False when there is no such process, or it is not shown. */
static bool read_stat(int64_t pid, struct process_stat *stat)
{
    char path[64];
    char text[PROC_TEXT];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    if (read_start(path, text, sizeof text) == 0)
        return false;
    const char *field = strrchr(text, ')');
    for (int number = NAME_FIELD; field != NULL && number < START_TIME_FIELD; number++) {
        field = strchr(field, ' ');
        if (field == NULL)
            return false;
        field++;
        if (number + 1 == STATE_FIELD)
            stat->state = *field;
    }
    if (field == NULL)
        return false;
    stat->start_time = strtoull(field, NULL, 10);
    return true;
}

static int hex_digit(char letter)
{
    const char *digits = "0123456789abcdef";
    const char *hit = letter == '\0' ? NULL : strchr(digits, letter);
    return hit == NULL ? -1 : (int)(hit - digits);
}

/* The text is a UUID: 32 digits with '-' between groups. */
static void read_boot_id(unsigned char id[16])
{
    char text[64];
    size_t length = read_start("/proc/sys/kernel/random/boot_id", text, sizeof text);
    unsigned char bytes[16] = {0};
    size_t digits = 0;
    for (size_t i = 0; i < length && digits < 2 * sizeof bytes; i++) {
        int digit = hex_digit(text[i]);
        if (digit < 0)
            continue;
        bytes[digits / 2] = (unsigned char)(bytes[digits / 2] * 16 + digit);
        digits++;
    }
    if (digits == 2 * sizeof bytes)
        memcpy(id, bytes, sizeof bytes);
}

void eplb_process_identify(struct eplb_process_id *id)
{
    *id = (struct eplb_process_id){.pid = getpid()};
    struct process_stat self;
    if (read_stat(id->pid, &self))
        id->start_time = self.start_time;
    struct stat namespace;
    if (stat("/proc/self/ns/pid", &namespace) == 0)
        id->pid_namespace = namespace.st_ino;
    read_boot_id(id->boot_id);
}

static bool shares_numbers(const struct eplb_process_id *one, const struct eplb_process_id *other)
{
    static const unsigned char unknown[16];
    return one->pid_namespace != 0 && one->pid_namespace == other->pid_namespace &&
           memcmp(one->boot_id, unknown, sizeof unknown) != 0 &&
           memcmp(one->boot_id, other->boot_id, sizeof unknown) == 0;
}

int eplb_process_seen(const struct eplb_process_id *id)
{
    struct eplb_process_id self;
    eplb_process_identify(&self);
    if (id->pid <= 0 || id->pid > INT32_MAX || id->start_time == 0 || !shares_numbers(id, &self))
        return -1;
    struct process_stat other;
    if (!read_stat(id->pid, &other))
        return kill((pid_t)id->pid, 0) != 0 && errno == ESRCH ? 0 : -1;
    bool ended = other.state == 'Z' || other.state == 'X';
    return other.start_time == id->start_time && !ended;
}

/* ---- how one ended ---- */

const char *eplb_process_end_text(const struct eplb_process_end *end, char text[EPLB_PROCESS_END_TEXT])
{
    const char *name = sigabbrev_np(end->signal);
    if (end->signal != 0)
        snprintf(text, EPLB_PROCESS_END_TEXT, "was killed by signal %d (%s)", end->signal,
                 name == NULL ? "no standard one" : name);
    else if (end->exit_code == EPLB_PROCESS_CODE_LOST)
        snprintf(text, EPLB_PROCESS_END_TEXT, "ended, with a code that is not known");
    else
        snprintf(text, EPLB_PROCESS_END_TEXT, "exited with code %d", end->exit_code);
    return text;
}

/* ---- starting one ---- */

static int open_pidfd(int64_t pid)
{
    return (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
}

int eplb_process_watch(int64_t pid)
{
    return pid > 0 && pid <= INT32_MAX ? open_pidfd(pid) : -1;
}

static int add_descriptors(const struct eplb_process_params *params, posix_spawn_file_actions_t *actions)
{
    int reason = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    for (int i = 0; i < params->num_keep && reason == 0; i++) {
        EPLB_ASSERT(params->keep[i] > STDERR_FILENO);
        /* A descriptor that is duplicated onto itself loses close-on-exec, in the child alone. */
        reason = posix_spawn_file_actions_adddup2(actions, params->keep[i], params->keep[i]);
    }
    return reason;
}

static int set_signals(posix_spawnattr_t *attributes)
{
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    int reason = posix_spawnattr_setsigmask(attributes, &none);
    if (reason == 0)
        reason = posix_spawnattr_setsigdefault(attributes, &all);
    if (reason == 0)
        reason = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    return reason;
}

static int spawn(const struct eplb_process_params *params, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int reason = posix_spawn_file_actions_init(&actions);
    if (reason != 0)
        return reason;
    reason = posix_spawnattr_init(&attributes);
    if (reason != 0)
        goto destroy_actions;
    reason = add_descriptors(params, &actions);
    if (reason == 0)
        reason = set_signals(&attributes);
    if (reason == 0)
        reason = posix_spawn(pid, params->path, &actions, &attributes, params->arguments, environ);
    posix_spawnattr_destroy(&attributes);
destroy_actions:
    posix_spawn_file_actions_destroy(&actions);
    return reason;
}

enum eplb_status eplb_process_start(const struct eplb_process_params *params, struct eplb_process *process,
                                    struct eplb_error *error)
{
    pid_t pid;
    int reason = spawn(params, &pid);
    if (reason != 0)
        EPLB_FAIL(EPLB_IO, "the program %s cannot be started: %s", params->path, strerror(reason));
    /* Still this child's number: only a wait of ours would free it. */
    int descriptor = open_pidfd(pid);
    if (descriptor < 0) {
        int code = errno;
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        EPLB_FAIL(EPLB_IO, "the program %s was started but cannot be watched, and was stopped: %s",
                  params->path, strerror(code));
    }
    *process = (struct eplb_process){.pid = pid, .descriptor = descriptor};
    return EPLB_OK;
}

void eplb_process_signal(const struct eplb_process *process, int signal)
{
    /* Fails when the process has ended, which is no loss. */
    if (process->descriptor >= 0)
        (void)syscall(SYS_pidfd_send_signal, process->descriptor, signal, NULL, 0);
}

static struct eplb_process_end end_of(const siginfo_t *info)
{
    if (info->si_code == CLD_EXITED)
        return (struct eplb_process_end){.exit_code = info->si_status};
    return (struct eplb_process_end){.signal = info->si_status};
}

bool eplb_process_reap(struct eplb_process *process, struct eplb_process_end *end)
{
    siginfo_t info = {.si_pid = 0};
    if (process->descriptor < 0)
        return false;
    if (waitid(P_PIDFD, (id_t)process->descriptor, &info, WEXITED | WNOHANG) == 0) {
        if (info.si_pid == 0)
            return false;
        *end = end_of(&info);
    } else if (errno == ECHILD) {
        *end = (struct eplb_process_end){.exit_code = EPLB_PROCESS_CODE_LOST};
    } else {
        return false;
    }
    close(process->descriptor);
    process->descriptor = -1;
    return true;
}

bool eplb_process_wait(struct eplb_process *process, int64_t deadline, struct eplb_process_end *end)
{
    const struct eplb_clock *clock = eplb_clock_system();
    struct pollfd watched = {.fd = process->descriptor, .events = POLLIN};
    while (process->descriptor >= 0) {
        if (eplb_process_reap(process, end))
            return true;
        int64_t left = deadline - clock->now(clock->context);
        if (left <= 0)
            return false;
        struct timespec time = {.tv_sec = (time_t)(left / NS_PER_SECOND),
                                .tv_nsec = (long)(left % NS_PER_SECOND)};
        /* Not even one descriptor may be waited for where the limit was lowered to none. */
        if (ppoll(&watched, 1, &time, NULL) < 0 && errno == EINVAL) {
            const struct timespec nap = {.tv_nsec = NAP_NS};
            (void)ppoll(NULL, 0, &nap, NULL);
        }
    }
    return false;
}

/* ---- the machine ---- */

int32_t eplb_process_processors(void)
{
    /* The kernel refuses a set that is smaller than its own, whose size it does not tell. */
    for (int capacity = CPU_SETSIZE; capacity <= MOST_PROCESSORS; capacity *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)capacity);
        if (set == NULL)
            break;
        size_t bytes = CPU_ALLOC_SIZE((size_t)capacity);
        int failed = sched_getaffinity(0, bytes, set);
        int count = failed == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return count;
    }
    return 1;
}

int64_t eplb_thread_cpu_time(void)
{
    struct timespec time;
    int failed = clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    EPLB_ASSERT(failed == 0);
    return (int64_t)time.tv_sec * NS_PER_SECOND + time.tv_nsec;
}
