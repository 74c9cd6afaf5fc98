/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "trace/load_file.h"

/* A .npy file in the making. */
struct npy {
    char bytes[1024];
    size_t size;
};

static void start(struct npy *npy, int major, int minor, const char *header)
{
    size_t length = strlen(header);
    size_t length_bytes = major == 1 ? 2 : 4;
    memcpy(npy->bytes, "\x93NUMPY", 6);
    npy->bytes[6] = (char)major;
    npy->bytes[7] = (char)minor;
    for (size_t i = 0; i < length_bytes; i++)
        npy->bytes[8 + i] = (char)(length >> (8 * i));
    memcpy(npy->bytes + 8 + length_bytes, header, length);
    npy->size = 8 + length_bytes + length;
}

static void add(struct npy *npy, int64_t value, size_t item_bytes)
{
    for (size_t i = 0; i < item_bytes; i++)
        npy->bytes[npy->size++] = (char)((uint64_t)value >> (8 * i));
}

static enum eplb_status parse(const struct npy *npy, struct eplb_load *load, struct eplb_error *error)
{
    struct eplb_input input = {.name = "in", .bytes = npy->bytes, .size = npy->size};
    return eplb_load_parse(&input, load, error);
}

static void refuses(const struct npy *npy, const char *sentence)
{
    struct eplb_load load;
    struct eplb_error error = {0};
    assert_int_equal(parse(npy, &load, &error), EPLB_INVALID);
    assert_string_equal(error.text, sentence);
}

static void refuses_header(const char *header, const char *sentence)
{
    struct npy npy;
    start(&npy, 1, 0, header);
    for (int i = 0; i < 4; i++)
        add(&npy, 5, 4);
    refuses(&npy, sentence);
}

#define INT32_2X2 "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2), }\n"

static void every_version_is_read(void **state)
{
    (void)state;
    for (int major = 1; major <= 3; major++) {
        struct npy npy;
        struct eplb_load load;
        struct eplb_error error;
        start(&npy, major, 0, "{\"shape\": (2, 1), 'fortran_order': False, 'descr': '<i8'}");
        add(&npy, EPLB_MAX_LOAD, 8);
        add(&npy, 0, 8);
        assert_int_equal(parse(&npy, &load, &error), EPLB_OK);
        assert_int_equal(load.num_steps, 1);
        assert_int_equal(load.num_layers, 2);
        assert_int_equal(load.num_experts, 1);
        assert_true(load.load[0] == EPLB_MAX_LOAD);
        assert_true(load.load[1] == 0);
        eplb_load_free(&load);
    }
    struct npy npy;
    start(&npy, 4, 0, INT32_2X2);
    refuses(&npy, "in has .npy version 4.0; read are 1.0, 2.0 and 3.0");
    start(&npy, 1, 1, INT32_2X2);
    refuses(&npy, "in has .npy version 1.1; read are 1.0, 2.0 and 3.0");
}

static void other_arrays_are_refused(void **state)
{
    (void)state;
#define DTYPE(dtype) "{'descr': '" dtype "', 'fortran_order': False, 'shape': (2, 2), }"
#define ALLOWED "; read are int32 (\"<i4\") and int64 (\"<i8\")"
    refuses_header(DTYPE("|b1"), "in has the dtype \"|b1\"" ALLOWED);
    refuses_header(DTYPE("<f4"), "in has the dtype \"<f4\"" ALLOWED);
    refuses_header(DTYPE("|u1"), "in has the dtype \"|u1\"" ALLOWED);
    refuses_header(DTYPE(">i4"), "in has the dtype \">i4\"" ALLOWED);
    refuses_header("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (2,)}",
                   "in has a structured dtype" ALLOWED);
    refuses_header("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 2)}",
                   "in is in Fortran order (fortran_order True); read is C order (False)");
}

static void shapes_are_checked(void **state)
{
    (void)state;
#define SHAPE(shape) "{'descr': '<i4', 'fortran_order': False, 'shape': " shape "}"
#define AXES "; a load is [layer][expert] or [step][layer][expert]"
    refuses_header(SHAPE("()"), "in has the shape ()" AXES);
    refuses_header(SHAPE("(4,)"), "in has the shape (4)" AXES);
    refuses_header(SHAPE("(1, 1, 2, 2)"), "in has the shape (1, 1, 2, 2)" AXES);
    refuses_header(SHAPE("(0, 5)"), "in has the shape (0, 5): 0 layers; allowed are 1 to 65536");
    refuses_header(SHAPE("(2, 2, 65537)"),
                   "in has the shape (2, 2, 65537): 65537 experts; allowed are 1 to 65536");
    refuses_header(SHAPE("(1048577, 1, 1)"),
                   "in has the shape (1048577, 1, 1): 1048577 steps; allowed are 1 to 1048576");
    refuses_header(
        SHAPE("(1048576, 65536, 65536)"),
        "in: the shape (1048576, 65536, 65536) of \"<i4\" takes 18014398509481984 bytes of data; the file "
        "has 16");
    refuses_header(SHAPE("(2, 3)"),
                   "in: the shape (2, 3) of \"<i4\" takes 24 bytes of data; the file has 16");
    refuses_header(SHAPE("(2, 1)"), "in: the shape (2, 1) of \"<i4\" takes 8 bytes of data; the file has 16");
    refuses_header(SHAPE("(9223372036854775808, 1)"),
                   "in: the .npy header is malformed at byte 79: a length below 2^63 expected");
}

static void headers_are_checked(void **state)
{
    (void)state;
#define KEYS "one each of the keys descr, fortran_order and shape expected"
    refuses_header("", "in: the .npy header is malformed at byte 10: \"{\" expected");
    refuses_header("{}", "in: the .npy header is malformed at byte 12: descr expected");
    refuses_header("{'descr': '<i4', 'descr': '<i4'}", "in: the .npy header is malformed at byte 35: " KEYS);
    refuses_header("{'order': 1}", "in: the .npy header is malformed at byte 19: " KEYS);
    refuses_header("{'shape': (2, 2)",
                   "in: the .npy header is malformed at byte 26: \",\" or \"}\" expected");
    refuses_header("{'shape': [2, 2]}",
                   "in: the .npy header is malformed at byte 20: a tuple of lengths expected");
    refuses_header("{'shape': (-2, 2)}",
                   "in: the .npy header is malformed at byte 21: the length of an axis expected");
    refuses_header("{'fortran_order': 0}",
                   "in: the .npy header is malformed at byte 28: True or False expected");
    refuses_header(SHAPE("(2, 2)") "x",
                   "in: the .npy header is malformed at byte 67: the end of the header expected");
    refuses_header("{'descr': '<i4",
                   "in: the .npy header is malformed at byte 24: the end of a short string expected");
    refuses_header("{'descr' '<i4'}", "in: the .npy header is malformed at byte 19: \":\" expected");
}

static void a_cut_header_is_refused(void **state)
{
    (void)state;
    struct npy npy;
    start(&npy, 1, 0, INT32_2X2);
    npy.size = 40;
    refuses(&npy, "in ends inside its .npy header: 40 bytes, the header alone takes 70");
    npy.size = 9;
    refuses(&npy, "in ends inside its .npy header: 9 bytes, the header alone takes 10");
    npy.size = 3;
    refuses(&npy, "in begins like a .npy file but ends or differs within its first 8 bytes");
    start(&npy, 2, 0, INT32_2X2);
    memset(npy.bytes + 8, 0xff, 4);
    refuses(&npy, "in ends inside its .npy header: 72 bytes, the header alone takes 4294967307");
}

static void counts_are_checked(void **state)
{
    (void)state;
    struct npy npy;
    start(&npy, 1, 0, INT32_2X2);
    add(&npy, 3, 4);
    add(&npy, 3, 4);
    add(&npy, 3, 4);
    add(&npy, -1, 4);
    refuses(&npy, "in: [0][1][1] (step, layer, expert) is -1; a count is an integer from 0 to 2^62");
    start(&npy, 1, 0, "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 1, 1)}");
    add(&npy, 3, 8);
    add(&npy, EPLB_MAX_LOAD + 1, 8);
    refuses(
        &npy,
        "in: [1][0][0] (step, layer, expert) is 4611686018427387905; a count is an integer from 0 to 2^62");
}

static void an_expert_map_is_no_load(void **state)
{
    (void)state;
    struct npy npy;
    start(&npy, 1, 0, INT32_2X2);
    for (int i = 0; i < 4; i++)
        add(&npy, i == 2, 4);
    refuses(
        &npy,
        "in holds only 0 and 1: it looks like an expert map (a placement: which rank holds which expert), "
        "not like a load");
    struct eplb_load load;
    struct eplb_error error;
    start(&npy, 1, 0, INT32_2X2);
    for (int i = 0; i < 4; i++)
        add(&npy, 0, 4);
    assert_int_equal(parse(&npy, &load, &error), EPLB_OK);
    eplb_load_free(&load);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_version_is_read),    cmocka_unit_test(other_arrays_are_refused),
        cmocka_unit_test(shapes_are_checked),       cmocka_unit_test(headers_are_checked),
        cmocka_unit_test(a_cut_header_is_refused),  cmocka_unit_test(counts_are_checked),
        cmocka_unit_test(an_expert_map_is_no_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
