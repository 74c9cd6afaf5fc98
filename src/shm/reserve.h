/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Reserving the memory of a segment: all of it, or a sentence.
 */
#ifndef SHM_RESERVE_H
#define SHM_RESERVE_H

#include <stddef.h>
#include <stdint.h>

#include "eplb/status.h"

/**
 * Gives the empty file its size, every byte of it reserved, so that no access ever meets a full file
 * system (SIGBUS).
 *
 * What cannot be had is refused before anything is taken: a reservation that fills the file system on its
 * way to failing would starve others, and a tmpfs may be as large as the machine's memory, where the
 * kernel then kills whom it likes.
 *
 * @param path for the sentence
 * @return EPLB_OK; EPLB_IO with the bytes wanted and free, or with the process's limit of a file's size when
 *         that is less, and the file is empty again
 */
enum eplb_status eplb_shm_reserve(int descriptor, size_t bytes, const char *path, struct eplb_error *error);

/** The process's limit of a file's size (RLIMIT_FSIZE), which ends who passes it (SIGXFSZ); UINT64_MAX: none.
 */
uint64_t eplb_shm_file_limit(void);

/** EPLB_IO when the machine has not so much memory available. Reserves nothing. */
enum eplb_status eplb_shm_check_memory(size_t bytes, const char *path, struct eplb_error *error);

#endif
