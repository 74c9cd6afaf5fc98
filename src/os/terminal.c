/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "os/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int eplb_terminal_is(int descriptor)
{
    return isatty(descriptor);
}

int eplb_terminal_width(int descriptor, int fallback)
{
    struct winsize window;
    if (ioctl(descriptor, TIOCGWINSZ, &window) != 0 || window.ws_col == 0)
        return fallback;
    return window.ws_col;
}

int eplb_terminal_colours(int descriptor)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    if (no_color != NULL && no_color[0] != '\0')
        return 0;
    if (term == NULL || term[0] == '\0' || strcmp(term, "dumb") == 0)
        return 0;
    return eplb_terminal_is(descriptor);
}
