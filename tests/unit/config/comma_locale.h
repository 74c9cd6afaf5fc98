/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * A host whose locale writes 0,5.
 */
#ifndef CONFIG_COMMA_LOCALE_H
#define CONFIG_COMMA_LOCALE_H

/** Sets such a locale, and makes one when the system has none; 0, with the reason printed, when it cannot. */
int comma_locale_begin(void);

void comma_locale_end(void);

#endif
