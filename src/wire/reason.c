/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "eplb/wire.h"

const char *eplb_reason_text(enum eplb_reason reason)
{
    switch (reason) {
#define REASON_TEXT(name, value, text) \
    case EPLB_REASON_##name:           \
        return text;
        EPLB_REASON_MAP(REASON_TEXT)
#undef REASON_TEXT
    }
    return "unknown reason";
}
