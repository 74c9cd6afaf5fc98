/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "style/style.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static size_t check_tree(size_t *num_files)
{
    struct style_report report = {.out = stdout};
    struct style_file *files = style_load_tree(num_files);
    for (size_t i = 0; i < *num_files; i++) {
        for (size_t j = 0; j < style_num_rules; j++) {
            /* Rows of one check stand side by side; it runs for the first of them. */
            if (j == 0 || style_rules[j].check != style_rules[j - 1].check)
                style_rules[j].check(&files[i], &report);
        }
    }
    for (size_t j = 0; j < style_num_ratchets; j++)
        style_check_ratchet(&style_ratchets[j], files, *num_files, &report);
    style_check_packages(files, *num_files, &report);
    for (size_t i = 0; i < *num_files; i++)
        style_file_free(&files[i]);
    free(files);
    return report.count;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--self-test") == 0) {
        size_t wrong = style_self_test();
        printf("style: %zu rules and %zu ratchets tried, %zu examples wrong\n", style_num_rules,
               style_num_ratchets, wrong);
        return wrong > 0;
    }
    if (argc != 2 || chdir(argv[1]) != 0) {
        fprintf(stderr, "usage: style ROOT | style --self-test\n");
        return 2;
    }
    size_t num_files;
    size_t faults = check_tree(&num_files);
    printf("style: %zu files, %zu faults\n", num_files, faults);
    if (num_files == 0)
        printf("style: no file found below %s\n", argv[1]);
    return faults > 0 || num_files == 0;
}
