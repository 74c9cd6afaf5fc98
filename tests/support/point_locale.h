/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A host whose locale does not write 0.5.
 */
#ifndef SUPPORT_POINT_LOCALE_H
#define SUPPORT_POINT_LOCALE_H

enum point_locale {
    POINT_LOCALE_COMMA, /* 0,5 */
    POINT_LOCALE_WIDE   /* a point of two bytes, U+066B */
};

/** Sets such a locale, and makes one when the system has none; 0, with the reason printed, when it cannot. */
int point_locale_begin(enum point_locale kind);

void point_locale_end(void);

#endif
