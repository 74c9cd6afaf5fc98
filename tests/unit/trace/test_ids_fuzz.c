/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Routed ids that are cut, changed or made up: read or refused, never anything else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "trace/ids_file.h"

enum { MADE_UP = 5000, SEED = 20250601, MAX_TEXT = 4096 };

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const unsigned char ids_u8[] = {0, 1, 2, 3, 1, 0, 2, 3, 0, 2, 3, 2,
                                       3, 0, 2, 1, 2, 0, 1, 2, 1, 3, 1, 0};

static const char sidecar[] =
    "{\"format\":\"eplb-ids-1\",\"axes\":[\"step\",\"sequence\",\"layer\",\"k\"],\"shape\":[3,2,2,2],"
    "\"dtype\":\"uint8\",\"num_experts\":4,\"top_k\":2,\"layer_ids\":[3,5],"
    "\"phases\":[{\"name\":\"a\",\"first\":0,\"end\":1},{\"name\":\"b\",\"first\":1,\"end\":3}],"
    "\"kind\":\"decode\"}";

/* The bytes lie in a block of just their size, so that a sanitizer sees a read past them. */
static char *exact_copy(const void *bytes, size_t size)
{
    char *copy = malloc(size == 0 ? 1 : size);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    return copy;
}

/* What is accepted is whole: ids in range, rows without duplicates, phases that cover all steps. */
static void check_whole(const struct eplb_ids *ids)
{
    for (int32_t step = 0; step < ids->num_steps; step++)
        for (int32_t sequence = 0; sequence < ids->num_sequences; sequence++)
            for (int32_t layer = 0; layer < ids->num_layers; layer++) {
                const uint16_t *experts = eplb_ids_at(ids, step, sequence, layer);
                for (int32_t k = 0; k < ids->top_k; k++) {
                    assert_true(experts[k] < ids->num_experts);
                    for (int32_t other = 0; other < k; other++)
                        assert_int_not_equal(experts[k], experts[other]);
                }
            }
    int32_t end = 0;
    for (int32_t phase = 0; phase < ids->num_phases; phase++) {
        assert_int_equal(ids->phases[phase].first, end);
        assert_true(ids->phases[phase].end > end);
        end = ids->phases[phase].end;
    }
    assert_int_equal(end, ids->num_steps);
    for (int32_t layer = 1; layer < ids->num_layers; layer++)
        assert_true(ids->layer_ids[layer] > ids->layer_ids[layer - 1]);
}

static enum eplb_status parse(const void *bytes, size_t size, const char *text, size_t length)
{
    char *data_copy = exact_copy(bytes, size);
    char *text_copy = exact_copy(text, length);
    struct eplb_input data = {.name = "in.ids.u8", .bytes = data_copy, .size = size};
    struct eplb_input beside = {.name = "in.json", .bytes = text_copy, .size = length};
    struct eplb_ids ids;
    struct eplb_error error = {0};
    enum eplb_status status = eplb_ids_parse(&data, &beside, &ids, &error);
    free(text_copy);
    free(data_copy);
    if (status == EPLB_OK) {
        check_whole(&ids);
        eplb_ids_free(&ids);
        return status;
    }
    assert_int_equal(status, EPLB_INVALID);
    assert_int_equal(error.status, EPLB_INVALID);
    assert_true(strstr(error.text, "in.json") != NULL || strstr(error.text, "in.ids.u8") != NULL);
    assert_null(strpbrk(error.text, "\r\n\t"));
    return status;
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    assert_int_equal(parse(ids_u8, sizeof ids_u8, sidecar, strlen(sidecar)), EPLB_OK);
    for (size_t cut = 0; cut < sizeof ids_u8; cut++)
        assert_int_equal(parse(ids_u8, cut, sidecar, strlen(sidecar)), EPLB_INVALID);
    for (size_t cut = 0; cut < strlen(sidecar); cut++)
        assert_int_equal(parse(ids_u8, sizeof ids_u8, sidecar, cut), EPLB_INVALID);
}

/* Only the names of phases and the numbers of layers are free; everything else is tied to the rest. */
static void every_byte_of_the_sidecar_counts(void **state)
{
    (void)state;
    char text[sizeof sidecar];
    size_t length = strlen(sidecar);
    size_t accepted = 0;
    for (size_t at = 0; at < length; at++)
        for (int byte = 0; byte <= 128; byte++) {
            memcpy(text, sidecar, sizeof sidecar);
            if (text[at] == (char)byte)
                continue;
            text[at] = (char)byte;
            accepted += parse(ids_u8, sizeof ids_u8, text, length) == EPLB_OK;
        }
    /* The first layer may be 0 to 4, the second 4 to 9; num_experts may be 5 to 9; the first phase may not
     * end elsewhere. The names of the phases: ASCII without controls, quote, backslash, the own and the other
     * name: 128 - 33 - 2 - 2 = 91 each; what is above is no UTF-8 alone. */
    assert_int_equal(accepted, 4 + 5 + 5 + 2 * 91);
}

static void every_byte_of_the_ids_is_checked(void **state)
{
    (void)state;
    unsigned char bytes[sizeof ids_u8];
    size_t accepted = 0;
    for (size_t at = 0; at < sizeof ids_u8; at++)
        for (int byte = 0; byte < 256; byte++) {
            memcpy(bytes, ids_u8, sizeof bytes);
            bytes[at] = (unsigned char)byte;
            accepted += parse(bytes, sizeof bytes, sidecar, strlen(sidecar)) == EPLB_OK;
        }
    /* Of 4 experts the one that the row's other k has is no choice. */
    assert_int_equal(accepted, sizeof ids_u8 * 3);
}

/* A value that may stand where it should not. */
static const char *random_value(struct eplb_prng *prng)
{
    static const char *const values[] = {"0",
                                         "1",
                                         "2",
                                         "3",
                                         "-1",
                                         "4",
                                         "2.5",
                                         "2147483647",
                                         "2147483648",
                                         "1048576",
                                         "65536",
                                         "9223372036854775807",
                                         "null",
                                         "true",
                                         "\"uint8\"",
                                         "\"k\"",
                                         "\"\"",
                                         "[]",
                                         "[3,5]",
                                         "[3,2,2,2]",
                                         "[-1,2,2]",
                                         "[6,2,2]",
                                         "{}",
                                         "[\"token\",\"layer\",\"k\"]",
                                         "\"prefill\"",
                                         "[{\"name\":\"c\",\"first\":0,\"end\":3}]",
                                         "[{\"name\":\"c\",\"first\":0,\"end\":6}]",
                                         "[2147483647,1048576,65536,65536]",
                                         "[2147483647,65536,65536]"};
    return values[eplb_prng_below(prng, COUNT(values))];
}

static size_t add(char *text, size_t length, const char *more)
{
    size_t size = strlen(more);
    assert_true(length + size < MAX_TEXT);
    memcpy(text + length, more, size + 1);
    return length + size;
}

/* The sidecar with some of its values replaced, left out, or in another order. */
static size_t make_up(struct eplb_prng *prng, char text[MAX_TEXT])
{
    static const char *const keys[] = {"\"axes\":",  "\"shape\":",     "\"dtype\":",  "\"num_experts\":",
                                       "\"top_k\":", "\"layer_ids\":", "\"phases\":", "\"kind\":"};
    static const char *const right[] = {
        "[\"step\",\"sequence\",\"layer\",\"k\"]",  "[3,2,2,2]", "\"uint8\"", "4", "2", "[3,5]",
        "[{\"name\":\"a\",\"first\":0,\"end\":3}]", "\"decode\""};
    uint64_t wrong = eplb_prng_below(prng, 4);
    size_t length = add(text, 0, "{\"format\":\"eplb-ids-1\"");
    size_t first = eplb_prng_below(prng, COUNT(keys));
    for (size_t i = 0; i < COUNT(keys); i++) {
        size_t key = (first + i) % COUNT(keys);
        int changed = eplb_prng_below(prng, COUNT(keys)) < wrong;
        if (changed && eplb_prng_below(prng, 4) == 0)
            continue;
        length = add(text, length, ",");
        length = add(text, length, keys[key]);
        length = add(text, length, changed ? random_value(prng) : right[key]);
    }
    return add(text, length, "}");
}

static void made_up_sidecars_are_read_or_refused(void **state)
{
    (void)state;
    print_message("seed %d\n", SEED);
    struct eplb_prng prng;
    eplb_prng_seed(&prng, SEED);
    char text[MAX_TEXT];
    size_t accepted = 0;
    for (int round = 0; round < MADE_UP; round++) {
        size_t length = make_up(&prng, text);
        accepted += parse(ids_u8, sizeof ids_u8, text, length) == EPLB_OK;
    }
    print_message("%zu of %d accepted\n", accepted, MADE_UP);
    assert_true(accepted > MADE_UP / 10);
    assert_true(accepted < MADE_UP / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(every_byte_of_the_sidecar_counts),
        cmocka_unit_test(every_byte_of_the_ids_is_checked),
        cmocka_unit_test(made_up_sidecars_are_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
