/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "engine/traffic.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static struct eplb_traffic_params usual(void)
{
    return (struct eplb_traffic_params){
        .vocab_size = 256, .prompt_tokens = 64, .new_tokens = 100, .seed = 7, .topic_sequences = 5};
}

static struct eplb_traffic make(const struct eplb_traffic_params *params)
{
    struct eplb_traffic traffic;
    assert_int_equal(eplb_traffic_init(&traffic, params, NULL), EPLB_OK);
    return traffic;
}

static void refusals_name_the_parameter(void **state)
{
    (void)state;
    const struct {
        int32_t vocab_size, prompt_tokens, new_tokens;
        const char *text;
        const char *sentence;
    } cases[] = {
        {1, 1, 1, NULL, "traffic: vocab_size is 1; allowed is 2 or more"},
        {2, 0, 1, NULL, "traffic: prompt_tokens is 0; allowed is 1 to 16777216"},
        {2, 16777217, 1, NULL, "traffic: prompt_tokens is 16777217; allowed is 1 to 16777216"},
        {2, 1, -1, NULL, "traffic: new_tokens is -1; allowed is 1 to 16777216"},
        {2, 1, 1, "", "traffic: the text is empty; at least one byte is needed"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        const struct eplb_traffic_params params = {.vocab_size = cases[i].vocab_size,
                                                   .prompt_tokens = cases[i].prompt_tokens,
                                                   .new_tokens = cases[i].new_tokens,
                                                   .text = cases[i].text};
        struct eplb_traffic traffic = {.params.seed = 99};
        struct eplb_error error;
        assert_int_equal(eplb_traffic_init(&traffic, &params, &error), EPLB_INVALID);
        assert_string_equal(error.text, cases[i].sentence);
        assert_int_equal(traffic.params.seed, 99);
    }
}

static void assert_lengths(int32_t longest, int32_t shortest)
{
    enum { SEQUENCES = 4000 };
    struct eplb_traffic_params params = usual();
    params.prompt_tokens = longest;
    params.new_tokens = longest;
    struct eplb_traffic traffic = make(&params);
    int32_t lows = 0;
    int32_t highs = 0;
    int32_t alike = 0;
    for (uint64_t n = 0; n < SEQUENCES; n++) {
        int32_t prompt = eplb_traffic_prompt_length(&traffic, n);
        int32_t more = eplb_traffic_new_tokens(&traffic, n);
        assert_in_range(prompt, shortest, longest);
        assert_in_range(more, shortest, longest);
        lows += prompt == shortest;
        highs += prompt == longest;
        alike += prompt == more;
    }
    /* Uniform, and the two lengths of a sequence are drawn apart. */
    int32_t even = SEQUENCES / (longest - shortest + 1);
    assert_in_range(lows, even / 2, even + even / 2);
    assert_in_range(highs, even / 2, even + even / 2);
    assert_in_range(alike, even / 2, even + even / 2);
}

static void lengths_are_from_half_to_full(void **state)
{
    (void)state;
    assert_lengths(1, 1);
    assert_lengths(2, 1);
    assert_lengths(3, 2);
    assert_lengths(64, 32);
    struct eplb_traffic_params params = usual();
    params.prompt_tokens = EPLB_TRAFFIC_MAX_TOKENS;
    struct eplb_traffic traffic = make(&params);
    for (uint64_t n = 0; n < 100; n++)
        assert_in_range(eplb_traffic_prompt_length(&traffic, UINT64_MAX - n), EPLB_TRAFFIC_MAX_TOKENS / 2,
                        EPLB_TRAFFIC_MAX_TOKENS);
}

/** A number of everything that a run's first sequences are. */
static uint64_t sum_of(const struct eplb_traffic *traffic, uint64_t sequences)
{
    uint64_t sum = 0;
    for (uint64_t n = 0; n < sequences; n++) {
        sum = sum * 31 + (uint64_t)eplb_traffic_prompt_length(traffic, n);
        sum = sum * 31 + (uint64_t)eplb_traffic_new_tokens(traffic, n);
        for (int32_t i = 0; i < eplb_traffic_prompt_length(traffic, n); i++)
            sum = sum * 31 + (uint64_t)eplb_traffic_token(traffic, n, i);
    }
    return sum;
}

/* A committed number: the same on every machine, and a change of the traffic changes what runs are
 * compared with. */
static void the_traffic_is_this_one(void **state)
{
    (void)state;
    struct eplb_traffic_params params = usual();
    struct eplb_traffic traffic = make(&params);
    assert_int_equal(sum_of(&traffic, 100), UINT64_C(0x19dcf86a354a6746));
    params.seed = 8;
    struct eplb_traffic other = make(&params);
    assert_true(sum_of(&other, 100) != sum_of(&traffic, 100));
    /* The seed draws the lengths, not only the text. */
    params.text = "text";
    params.text_bytes = 4;
    struct eplb_traffic reading = make(&params);
    params.seed = 7;
    struct eplb_traffic reading_other = make(&params);
    assert_true(sum_of(&reading, 100) != sum_of(&reading_other, 100));
}

static void tokens_come_in_any_order(void **state)
{
    (void)state;
    struct eplb_traffic_params params = usual();
    struct eplb_traffic traffic = make(&params);
    int32_t tokens[20][64];
    for (uint64_t n = 0; n < 20; n++)
        for (int32_t i = 0; i < eplb_traffic_prompt_length(&traffic, n); i++)
            tokens[n][i] = eplb_traffic_token(&traffic, n, i);
    for (uint64_t n = 20; n-- > 0;)
        for (int32_t i = eplb_traffic_prompt_length(&traffic, n) - 1; i >= 0; i--)
            assert_int_equal(eplb_traffic_token(&traffic, n, i), tokens[n][i]);
}

static void prompts_go_through_the_text(void **state)
{
    (void)state;
    static char text[1000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * i % 251);
    struct eplb_traffic_params params = usual();
    params.text = text;
    params.text_bytes = sizeof text;
    struct eplb_traffic traffic = make(&params);
    for (uint64_t n = 0; n < 100; n++)
        for (int32_t i = 0; i < eplb_traffic_prompt_length(&traffic, n); i++)
            assert_int_equal(eplb_traffic_token(&traffic, n, i),
                             (unsigned char)text[(n * 64 + (uint64_t)i) % sizeof text]);
    /* 2^64 = 616 mod 1000: the piece of sequence 2^64 - 1 starts at 615 * 64 = 360 mod 1000. */
    assert_int_equal(eplb_traffic_token(&traffic, UINT64_MAX, 3), (unsigned char)text[363]);
    params.text_bytes = 3;
    struct eplb_traffic short_text = make(&params);
    for (int32_t i = 0; i < 32; i++)
        assert_int_equal(eplb_traffic_token(&short_text, 2, i), (unsigned char)text[(128 + i) % 3]);
}

static void tokens_are_within_the_vocabulary(void **state)
{
    (void)state;
    static const char text[] = "\x00\x01\x7f\x80\xff";
    struct eplb_traffic_params params = usual();
    params.text = text;
    params.text_bytes = 5;
    params.prompt_tokens = 5;
    struct eplb_traffic whole = make(&params);
    params.vocab_size = 100;
    struct eplb_traffic modulo = make(&params);
    params.vocab_size = 65536;
    struct eplb_traffic large = make(&params);
    static const int32_t bytes[] = {0, 1, 127, 128, 255};
    for (int32_t i = 0; i < 5; i++) {
        assert_int_equal(eplb_traffic_token(&whole, 0, i), bytes[i]);
        assert_int_equal(eplb_traffic_token(&modulo, 0, i), bytes[i] % 100);
        assert_int_equal(eplb_traffic_token(&large, 0, i), bytes[i]);
    }
}

/* ---- the built-in text ---- */

static void count_bytes(const struct eplb_traffic *traffic, uint64_t from, uint64_t to, double shares[256])
{
    double total = 0;
    memset(shares, 0, 256 * sizeof *shares);
    for (uint64_t n = from; n < to; n++)
        for (int32_t i = 0; i < eplb_traffic_prompt_length(traffic, n); i++) {
            shares[eplb_traffic_token(traffic, n, i)]++;
            total++;
        }
    for (int i = 0; i < 256; i++)
        shares[i] /= total;
}

static double overlap(const double *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < 256; i++)
        sum += a[i] < b[i] ? a[i] : b[i];
    return sum;
}

static void topics_have_bytes_of_their_own(void **state)
{
    (void)state;
    static double shares[3][256];
    static double more[256];
    struct eplb_traffic_params params = usual();
    params.topic_sequences = 200;
    struct eplb_traffic traffic = make(&params);
    for (uint64_t topic = 0; topic < 3; topic++)
        count_bytes(&traffic, topic * 200, topic * 200 + 200, shares[topic]);
    assert_true(overlap(shares[0], shares[1]) < 0.1);
    assert_true(overlap(shares[0], shares[2]) < 0.001);
    assert_true(overlap(shares[1], shares[2]) < 0.001);
    /* Prose is mostly letters, of tables a good part is digits, the third is UTF-8. */
    double letters = 0;
    double digits = 0;
    double high = 0;
    for (int i = 0; i < 256; i++) {
        letters += i >= 'a' && i <= 'z' ? shares[0][i] : 0;
        digits += i >= '0' && i <= '9' ? shares[1][i] : 0;
        high += i >= 0x80 ? shares[2][i] : 0;
    }
    assert_true(letters > 0.7);
    assert_true(digits > 0.5);
    assert_true(high > 0.999);
    /* A topic comes back with other words. */
    count_bytes(&traffic, 600, 800, more);
    assert_true(overlap(shares[0], more) > 0.95);
    int32_t differing = 0;
    for (int32_t i = 0; i < 32; i++)
        differing += eplb_traffic_token(&traffic, 0, i) != eplb_traffic_token(&traffic, 600, i);
    assert_true(differing > 16);
}

/** 0, 1 or 2, by the prompt's bytes. */
static int topic_of(const struct eplb_traffic *traffic, uint64_t sequence)
{
    int letters = 0;
    int high = 0;
    int32_t length = eplb_traffic_prompt_length(traffic, sequence);
    for (int32_t i = 0; i < length; i++) {
        int32_t token = eplb_traffic_token(traffic, sequence, i);
        letters += token >= 'a' && token <= 'z';
        high += token >= 0x80;
    }
    return high == length ? 2 : letters * 2 > length ? 0 : 1;
}

static void topics_change_after_so_many_sequences(void **state)
{
    (void)state;
    struct eplb_traffic_params params = usual();
    struct eplb_traffic traffic = make(&params);
    for (uint64_t n = 0; n < 60; n++)
        assert_int_equal(topic_of(&traffic, n), n / 5 % 3);
    params.topic_sequences = 1;
    struct eplb_traffic fast = make(&params);
    for (uint64_t n = 0; n < 60; n++)
        assert_int_equal(topic_of(&fast, n), n % 3);
    params.topic_sequences = 0;
    struct eplb_traffic never = make(&params);
    for (uint64_t n = 0; n < 60; n++)
        assert_int_equal(topic_of(&never, n * 1000003), 0);
}

static void the_third_topic_is_cyrillic(void **state)
{
    (void)state;
    struct eplb_traffic_params params = usual();
    struct eplb_traffic traffic = make(&params);
    for (uint64_t n = 10; n < 15; n++)
        for (int32_t i = 0; i + 1 < eplb_traffic_prompt_length(&traffic, n); i += 2) {
            int32_t letter = (eplb_traffic_token(&traffic, n, i) & 0x1f) << 6 |
                             (eplb_traffic_token(&traffic, n, i + 1) & 0x3f);
            assert_int_equal(eplb_traffic_token(&traffic, n, i) & 0xe0, 0xc0);
            assert_int_equal(eplb_traffic_token(&traffic, n, i + 1) & 0xc0, 0x80);
            assert_in_range(letter, 0x410, 0x44f);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_name_the_parameter),
        cmocka_unit_test(lengths_are_from_half_to_full),
        cmocka_unit_test(the_traffic_is_this_one),
        cmocka_unit_test(tokens_come_in_any_order),
        cmocka_unit_test(prompts_go_through_the_text),
        cmocka_unit_test(tokens_are_within_the_vocabulary),
        cmocka_unit_test(topics_have_bytes_of_their_own),
        cmocka_unit_test(topics_change_after_so_many_sequences),
        cmocka_unit_test(the_third_topic_is_cyrillic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
