/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "base/planted.h"

bool eplb_planted[EPLB_NUM_PLANTED_BUGS];
