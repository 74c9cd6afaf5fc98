/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Material for tests that lies outside the project, and small helpers that read test inputs.
 */
#ifndef SUPPORT_MATERIAL_H
#define SUPPORT_MATERIAL_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Finds a file or folder below EPLB_SHARED, else below `shared` beside the checkout. Returns 0
 * and writes the path, or -1 when it is not there; then prints why as a skip line, once per call.
 */
int material_find(const char *name, char *path, size_t capacity);

/** Path of a file of the project's own, below the source tree. */
void material_own(const char *name, char *path, size_t capacity);

/** Loads a JSON file, or fails the test. */
json_t *material_json(const char *path);

/** Reads an array of integers, nested or not, in row-major order; returns how many. Fails the test when over
 * capacity. */
size_t material_int32(const json_t *array, int32_t *values, size_t capacity);
size_t material_int64(const json_t *array, int64_t *values, size_t capacity);

/** An integer member of an object; fails the test when it is missing. */
int64_t material_int(const json_t *object, const char *key);

#endif
