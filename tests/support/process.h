/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * What this process holds: threads, open files, memory.
 */
#ifndef SUPPORT_PROCESS_H
#define SUPPORT_PROCESS_H

#include <stddef.h>
#include <stdint.h>

size_t process_threads(void);
size_t process_files(void);

/** Bytes that malloc has given out and not got back; 0 under a sanitizer that has its own. */
int64_t process_heap_bytes(void);

/** Bytes of memory that are resident now. */
int64_t process_resident_bytes(void);

#endif
