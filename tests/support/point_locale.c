/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "support/point_locale.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kind {
    const char *half;     /* what printf makes of 0.5 */
    const char *source;   /* what localedef makes one of */
    const char *names[3]; /* what systems call one */
};

static const struct kind kinds[] = {
    [POINT_LOCALE_COMMA] = {"0,5", "de_DE", {"de_DE.UTF-8", "fr_FR.UTF-8", "ru_RU.UTF-8"}},
    [POINT_LOCALE_WIDE] = {"0\xd9\xab"
                           "5",
                           "ps_AF",
                           {"ps_AF.UTF-8", "fa_IR.UTF-8", "ps_AF"}},
};

static int set(const struct kind *kind, const char *name)
{
    char text[16];
    if (setlocale(LC_ALL, name) == NULL)
        return 0;
    snprintf(text, sizeof text, "%.1f", 0.5);
    return strcmp(text, kind->half) == 0;
}

static int set_installed(const struct kind *kind)
{
    for (size_t i = 0; i < sizeof kind->names / sizeof kind->names[0]; i++)
        if (set(kind, kind->names[i]))
            return 1;
    return 0;
}

static int set_made(const struct kind *kind)
{
    char directory[] = "locale.XXXXXX";
    char command[256];
    if (mkdtemp(directory) == NULL)
        return 0;
    snprintf(command, sizeof command, "localedef --no-archive -i %s -f UTF-8 ./%s/made >%s/log 2>&1",
             kind->source, directory, directory);
    int made = system(command) == 0 && setenv("LOCPATH", directory, 1) == 0 && set(kind, "made");
    /* Only for this one: the locales of the system would not be found any more. */
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -r ./%s", directory);
    return system(command) == 0 && made;
}

int point_locale_begin(enum point_locale kind)
{
    if (set_installed(&kinds[kind]) || set_made(&kinds[kind]))
        return 1;
    point_locale_end();
    printf("skipped: no locale that writes %s, and localedef cannot make one\n", kinds[kind].half);
    return 0;
}

void point_locale_end(void)
{
    setlocale(LC_ALL, "C");
}
