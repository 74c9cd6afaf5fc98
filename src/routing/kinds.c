/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Names of the replica routings.
 */
#include "eplb/routing.h"

#include <string.h>

#include "base/error.h"

static const char *const names[EPLB_NUM_ROUTINGS] = {
    [EPLB_ROUTING_STATIC] = "static",     [EPLB_ROUTING_LOCAL] = "local",
    [EPLB_ROUTING_WEIGHTED] = "weighted", [EPLB_ROUTING_ADAPTIVE] = "adaptive",
    [EPLB_ROUTING_BATCH] = "batch",
};

const char *eplb_replica_routing_name(enum eplb_replica_routing routing)
{
    unsigned index = (unsigned)routing;
    return index < EPLB_NUM_ROUTINGS ? names[index] : "unknown";
}

enum eplb_status eplb_replica_routing_parse(const char *text, enum eplb_replica_routing *routing,
                                            struct eplb_error *error)
{
    for (int index = 0; index < EPLB_NUM_ROUTINGS; index++) {
        if (strcmp(text, names[index]) == 0) {
            *routing = (enum eplb_replica_routing)index;
            return EPLB_OK;
        }
    }
    EPLB_FAIL(EPLB_INVALID, "replica routing '%.32s' is not one of static, local, weighted, adaptive, batch",
              text);
}
