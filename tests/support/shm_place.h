/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A directory of a test's own under /dev/shm: segments there meet no other test's.
 */
#ifndef SUPPORT_SHM_PLACE_H
#define SUPPORT_SHM_PLACE_H

#define SHM_PLACE_PATH 64

struct shm_place {
    char path[SHM_PLACE_PATH];
};

void shm_place_open(struct shm_place *place);

/** Names in it that are no lock file. */
int shm_place_count(const struct shm_place *place);

/** Removes it, with all that is in it. */
void shm_place_close(const struct shm_place *place);

#endif
