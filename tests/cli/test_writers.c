/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * An output file holds one complete placement at every moment, whoever writes it and dies.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/command.h"

#define LOAD_ARGUMENT "--load=load.csv"

enum { ROUNDS = 200 };

static const char *const balanced[] = {
    "plan", LOAD_ARGUMENT, "--ep_size=4", "--eplb_policy_kind=balanced", "--output=both.json", NULL};
static const char *const greedy[] = {
    "plan", LOAD_ARGUMENT, "--ep_size=4", "--eplb_policy_kind=greedy", "--output=both.json", NULL};

static void write_load(void)
{
    static const char text[] = "step,label,layer,e0,e1,e2,e3,e4,e5,e6,e7,e8,e9,e10,e11\n"
                               "0,,0,90,132,40,61,104,165,39,4,73,56,183,86\n"
                               "0,,1,20,107,104,64,19,197,187,157,172,86,16,27\n";
    command_write_file("load.csv", text, strlen(text));
}

/** What one writer alone leaves in both.json. */
static char *result_of(const char *const *arguments)
{
    struct command_run run;
    command_run(arguments, &run);
    if (run.exit_code != 0)
        fail_msg("%s", run.errors);
    command_free(&run);
    return command_read_file("both.json");
}

static int open_nowhere(void)
{
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_true(nowhere >= 0);
    return nowhere;
}

static void check_either(const char *one, const char *other)
{
    char *found = command_read_file("both.json");
    if (strcmp(found, one) != 0 && strcmp(found, other) != 0)
        fail_msg("both.json holds neither writer's placement: %s", found);
    free(found);
}

static void wait_for_success(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void two_writers(void **state)
{
    (void)state;
    write_load();
    char *one = result_of(balanced);
    char *other = result_of(greedy);
    assert_string_not_equal(one, other);
    int nowhere = open_nowhere();
    for (int round = 0; round < ROUNDS; round++) {
        pid_t first = command_start(round % 2 == 0 ? balanced : greedy, nowhere, nowhere, -1);
        pid_t second = command_start(round % 2 == 0 ? greedy : balanced, nowhere, nowhere, -1);
        check_either(one, other);
        wait_for_success(first);
        check_either(one, other);
        wait_for_success(second);
        check_either(one, other);
    }
    close(nowhere);
    free(one);
    free(other);
}

/** Removes what dead writers left; returns how many files that were. */
static size_t sweep(void)
{
    glob_t found;
    if (glob("both.json.*", 0, NULL, &found) != 0)
        return 0;
    size_t count = found.gl_pathc;
    for (size_t i = 0; i < count; i++)
        unlink(found.gl_pathv[i]);
    globfree(&found);
    return count;
}

/**
 * The limit ends a writer like kill -9, with no chance to clean up, at exactly the byte that we
 * choose. What it leaves is a file of another name.
 */
static void writer_dies_in_the_middle(void **state)
{
    (void)state;
    write_load();
    char *old = result_of(greedy);
    char *whole = result_of(balanced);
    command_write_file("both.json", old, strlen(old));
    int nowhere = open_nowhere();
    for (size_t size = 0; size < strlen(whole); size += 13) {
        sweep();
        int status;
        pid_t child = command_start(balanced, nowhere, nowhere, (long)size);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGXFSZ);
        assert_int_equal(sweep(), 1);
        check_either(old, old);
    }
    close(nowhere);
    free(old);
    free(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_writers),
        cmocka_unit_test(writer_dies_in_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
