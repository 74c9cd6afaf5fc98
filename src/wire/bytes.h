/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Integers in records: little-endian at any address, on every machine. Compilers make one load or
 * store of each.
 */
#ifndef WIRE_BYTES_H
#define WIRE_BYTES_H

#include <stddef.h>
#include <stdint.h>

static inline void eplb_put_u16(unsigned char *bytes, uint16_t value)
{
    for (int i = 0; i < 2; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
}

static inline void eplb_put_u32(unsigned char *bytes, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
}

static inline void eplb_put_u64(unsigned char *bytes, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
}

static inline uint16_t eplb_get_u16(const unsigned char *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static inline uint32_t eplb_get_u32(const unsigned char *bytes)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++)
        value |= (uint32_t)bytes[i] << (8 * i);
    return value;
}

static inline uint64_t eplb_get_u64(const unsigned char *bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

/* Two's complement: gcc and clang define the conversion of values above the maximum as modular. */
static inline int32_t eplb_get_i32(const unsigned char *bytes)
{
    return (int32_t)eplb_get_u32(bytes);
}

static inline int64_t eplb_get_i64(const unsigned char *bytes)
{
    return (int64_t)eplb_get_u64(bytes);
}

#endif
