/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Status codes and error records. Belongs to src/base.
 *
 * Every function that can fail returns an enum eplb_status and takes, as its last argument, a
 * struct eplb_error that it fills with one sentence: what is wrong, where, and what is allowed.
 * The first function that knows decides and records; callers above it only forward.
 * Results are written only on success, unless a function says otherwise.
 */
#ifndef EPLB_STATUS_H
#define EPLB_STATUS_H

#include <stdarg.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Marks the symbols that libeplb.so exports. */
#if defined(__GNUC__)
#define EPLB_API __attribute__((visibility("default")))
#define EPLB_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define EPLB_API
#define EPLB_PRINTF(text, first)
#endif

/**
 * One row per status: name, value, exit code of the command that ends with it, text.
 * Values are stable: they are never reused or renumbered.
 */
#define EPLB_STATUS_MAP(X)                                    \
    X(OK, 0, 0, "ok")                                         \
    X(INTERNAL, 1, 1, "internal error")                       \
    X(IO, 2, 1, "input/output error")                         \
    X(NO_MEMORY, 3, 1, "out of memory")                       \
    X(INVALID, 4, 2, "invalid input")                         \
    X(USAGE, 5, 2, "wrong usage")                             \
    X(UNSUPPORTED, 6, 2, "not supported")                     \
    X(REFUSED, 7, 2, "refused")                               \
    X(INCONSISTENT, 8, 1, "ranks disagree")                   \
    X(VERIFY, 9, 3, "verification failed")                    \
    X(RANK_DEAD, 10, 4, "a rank died")                        \
    X(RANK_SILENT, 11, 5, "a rank is silent or a hook hangs") \
    X(LAYOUT, 12, 6, "shared memory of another layout")       \
    X(IN_USE, 13, 7, "instance name in use")

/** Status of an operation; EPLB_OK is 0. */
enum eplb_status {
#define EPLB_STATUS_ENUM(name, value, exit_code, text) EPLB_##name = value,
    EPLB_STATUS_MAP(EPLB_STATUS_ENUM)
#undef EPLB_STATUS_ENUM
};

/** Length of an error sentence, with its terminating zero; longer ones are cut. */
#define EPLB_ERROR_TEXT 512

/** What went wrong. Owned by the caller; no function keeps a pointer to it. */
struct eplb_error {
    enum eplb_status status;    /**< EPLB_OK when nothing was recorded. */
    char text[EPLB_ERROR_TEXT]; /**< One sentence without a newline; "" when nothing was recorded. */
};

/** The short text of a status; "unknown status" for a value that is none. Thread-safe. */
EPLB_API const char *eplb_status_text(enum eplb_status status);

/** The exit code (0 to 7) of a command that ends with this status; 1 for an unknown one. Thread-safe. */
EPLB_API int eplb_status_exit_code(enum eplb_status status);

/**
 * Records status and sentence in *error and returns the status, so that a failing function can end
 * with `return eplb_fail(error, EPLB_INVALID, ...)`.
 *
 * @param error  where to record; NULL records nowhere
 * @param status any status but EPLB_OK
 * @param format printf format of the sentence
 */
EPLB_API enum eplb_status eplb_fail(struct eplb_error *error, enum eplb_status status, const char *format,
                                    ...) EPLB_PRINTF(3, 4);

#ifdef __cplusplus
}
#endif
#endif
