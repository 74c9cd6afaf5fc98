/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A rule that cannot fail is a defect: each is tried on a bad and on a good example.
 */
#include "style/style.h"

#include <stdlib.h>
#include <string.h>

static size_t length_of(const char *text)
{
    return text == NULL ? 0 : strlen(text);
}

static void append(char *text, size_t *length, const char *more)
{
    if (more == NULL)
        return;
    memcpy(text + *length, more, strlen(more));
    *length += strlen(more);
}

static void load_example(struct style_file *file, const struct style_example *example)
{
    size_t room =
        length_of(example->head) + example->repeat * length_of(example->line) + length_of(example->tail);
    char *text = malloc(room + 1);
    if (text == NULL) {
        fprintf(stderr, "style: out of memory\n");
        exit(1);
    }
    size_t length = 0;
    append(text, &length, example->head);
    for (size_t i = 0; i < example->repeat; i++)
        append(text, &length, example->line);
    append(text, &length, example->tail);
    style_file_init(file, example->path, text, length);
}

static size_t rule_findings(const struct style_rule *rule, const struct style_example *example)
{
    struct style_file file;
    struct style_report report = {.out = NULL};
    load_example(&file, example);
    rule->check(&file, &report);
    style_file_free(&file);
    return report.count;
}

static size_t ratchet_findings(const struct style_ratchet *ratchet, const struct style_example *example)
{
    struct style_file file;
    struct style_report report = {.out = NULL};
    load_example(&file, example);
    style_check_ratchet(ratchet, &file, 1, &report);
    style_file_free(&file);
    return report.count;
}

/** Findings in a list of one package beside a document. */
static size_t package_findings(const char *document)
{
    const struct style_example examples[] = {
        {"scripts/packages.txt", "# a list\ngcc  build  command:cc\n", NULL, 0, NULL},
        {"docs/DEPENDENCIES.md", document, NULL, 0, NULL},
    };
    struct style_file files[2];
    struct style_report report = {.out = NULL};
    for (size_t i = 0; i < 2; i++)
        load_example(&files[i], &examples[i]);
    style_check_packages(files, 2, &report);
    for (size_t i = 0; i < 2; i++)
        style_file_free(&files[i]);
    return report.count;
}

/** Returns how many of the two examples went wrong. */
static size_t judge(const char *name, size_t of_bad, size_t of_good)
{
    if (of_bad != 1)
        printf("self-test: '%s' has %zu findings in its bad example; 1 is there\n", name, of_bad);
    if (of_good != 0)
        printf("self-test: '%s' has %zu findings in its good example\n", name, of_good);
    return (size_t)(of_bad != 1) + (size_t)(of_good != 0);
}

size_t style_self_test(void)
{
    size_t wrong = 0;
    for (size_t i = 0; i < style_num_rules; i++) {
        const struct style_rule *rule = &style_rules[i];
        wrong += judge(rule->name, rule_findings(rule, &rule->bad), rule_findings(rule, &rule->good));
    }
    for (size_t i = 0; i < style_num_ratchets; i++) {
        const struct style_ratchet *ratchet = &style_ratchets[i];
        wrong += judge(ratchet->folder, ratchet_findings(ratchet, &ratchet->bad),
                       ratchet_findings(ratchet, &ratchet->good));
    }
    wrong += judge("packages", package_findings("\n| `gcc-12` | `gcc` |\n"),
                   package_findings("\n| `gcc` | yes |\n"));
    return wrong;
}
