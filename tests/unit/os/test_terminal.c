/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "os/terminal.h"

struct terminal {
    int master;
    int slave;
};

static int open_terminal(void **state)
{
    static struct terminal terminal = {-1, -1};
    terminal.master = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal.master >= 0 && grantpt(terminal.master) == 0 && unlockpt(terminal.master) == 0)
        terminal.slave = open(ptsname(terminal.master), O_RDWR | O_NOCTTY);
    *state = &terminal;
    return 0;
}

static int close_terminal(void **state)
{
    struct terminal *terminal = *state;
    close(terminal->master);
    close(terminal->slave);
    return 0;
}

static int slave_of(void **state)
{
    struct terminal *terminal = *state;
    if (terminal->slave < 0) {
        fprintf(stderr, "skipped: this machine has no pseudo terminals\n");
        skip();
    }
    return terminal->slave;
}

static void a_pipe_is_no_terminal(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    assert_false(eplb_terminal_is(ends[1]));
    assert_int_equal(eplb_terminal_width(ends[1], 77), 77);
    assert_false(eplb_terminal_colours(ends[1]));
    close(ends[0]);
    close(ends[1]);
    assert_false(eplb_terminal_is(-1));
    assert_int_equal(eplb_terminal_width(-1, 78), 78);
    assert_false(eplb_terminal_colours(-1));
}

static void a_terminal_knows_its_width(void **state)
{
    int slave = slave_of(state);
    assert_true(eplb_terminal_is(slave));
    const struct winsize unknown = {0};
    assert_int_equal(ioctl(slave, TIOCSWINSZ, &unknown), 0);
    assert_int_equal(eplb_terminal_width(slave, 80), 80);
    const struct winsize wide = {.ws_row = 24, .ws_col = 132};
    assert_int_equal(ioctl(slave, TIOCSWINSZ, &wide), 0);
    assert_int_equal(eplb_terminal_width(slave, 80), 132);
}

struct environment {
    const char *term;
    const char *no_color;
    int colours;
};

static void the_environment_decides_on_colours(void **state)
{
    int slave = slave_of(state);
    static const struct environment environments[] = {
        {"xterm", NULL, 1}, {"xterm", "", 1}, {"xterm", "1", 0}, {"xterm", "0", 0},
        {"dumb", NULL, 0},  {"", NULL, 0},    {NULL, NULL, 0},
    };
    for (size_t i = 0; i < sizeof environments / sizeof environments[0]; i++) {
        unsetenv("TERM");
        unsetenv("NO_COLOR");
        if (environments[i].term != NULL)
            setenv("TERM", environments[i].term, 1);
        if (environments[i].no_color != NULL)
            setenv("NO_COLOR", environments[i].no_color, 1);
        assert_int_equal(eplb_terminal_colours(slave), environments[i].colours);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipe_is_no_terminal),
        cmocka_unit_test(a_terminal_knows_its_width),
        cmocka_unit_test(the_environment_decides_on_colours),
    };
    return cmocka_run_group_tests(tests, open_terminal, close_terminal);
}
