/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "comma_locale.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

static int set_installed(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (setlocale(LC_ALL, names[i]) != NULL)
            return 1;
    return 0;
}

static int set_made(void)
{
    char directory[] = "locale.XXXXXX";
    char command[256];
    if (mkdtemp(directory) == NULL)
        return 0;
    snprintf(command, sizeof command,
             "localedef --no-archive -i de_DE -f UTF-8 ./%s/de_DE.UTF-8 >%s/log 2>&1", directory, directory);
    int made = system(command) == 0 && setenv("LOCPATH", directory, 1) == 0 &&
               setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
    snprintf(command, sizeof command, "rm -r ./%s", directory);
    return system(command) == 0 && made;
}

int comma_locale_begin(void)
{
    if (set_installed() || set_made())
        return 1;
    printf("skipped: no locale with a decimal comma, and localedef cannot make one\n");
    return 0;
}

void comma_locale_end(void)
{
    setlocale(LC_ALL, "C");
}
