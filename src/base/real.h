/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Reals as text: with a decimal point, whatever the host's locale writes.
 */
#ifndef BASE_REAL_H
#define BASE_REAL_H

/** Bytes that a real's text needs, its end included. */
#define EPLB_REAL_TEXT 32

/** Writes a real as printf's %.*g of 1 to 17 digits. */
void eplb_real_round(double value, int digits, char text[EPLB_REAL_TEXT]);

/** Writes a finite real with as few digits as read back as the same one: 15, 16 or 17. */
void eplb_real_format(double value, char text[EPLB_REAL_TEXT]);

#endif
