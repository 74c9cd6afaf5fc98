/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Which source sends what to which replica, once the totals are solved.
 */
#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "routing/graph.h"

/** One shared expert's division: what each replica has left after its own rank's tokens, as intervals. */
struct division {
    const struct eplb_split_graph *graph;
    const int32_t *counts;
    const int64_t *tokens;
    int32_t shared;
};

static int64_t count_of(const struct division *division, int32_t source)
{
    int32_t expert = division->graph->shared_expert[division->shared];
    return division->counts[(size_t)source * (size_t)division->graph->num_experts + (size_t)expert];
}

/** Tokens of the arc's own rank that stay there. */
static int64_t kept_by(const struct division *division, int32_t arc)
{
    int64_t own = count_of(division, division->graph->arc_rank[arc]);
    int64_t room = division->tokens[division->graph->arc_slot[arc]];
    return own < room ? own : room;
}

/** The number of the source's first token among those that no own replica keeps. */
static int64_t first_number(const struct division *division, int32_t source)
{
    const struct eplb_split_graph *graph = division->graph;
    int64_t number = 0;
    for (int32_t before = 0; before < source; before++)
        number += count_of(division, before);
    for (int32_t arc = graph->first[division->shared]; arc < graph->first[division->shared + 1]; arc++)
        if (graph->arc_rank[arc] < source)
            number -= kept_by(division, arc);
    return number;
}

static int64_t overlap(int64_t a_first, int64_t a_end, int64_t b_first, int64_t b_end)
{
    int64_t first = a_first > b_first ? a_first : b_first;
    int64_t end = a_end < b_end ? a_end : b_end;
    return end > first ? end - first : 0;
}

static void send_shared(const struct division *division, int32_t source, int32_t *sends)
{
    const struct eplb_split_graph *graph = division->graph;
    int64_t first = first_number(division, source);
    int64_t end = first + count_of(division, source);
    for (int32_t arc = graph->first[division->shared]; arc < graph->first[division->shared + 1]; arc++)
        if (graph->arc_rank[arc] == source)
            end -= kept_by(division, arc);
    int64_t owned = 0;
    for (int32_t arc = graph->first[division->shared]; arc < graph->first[division->shared + 1]; arc++) {
        int64_t kept = kept_by(division, arc);
        int64_t until = owned + division->tokens[graph->arc_slot[arc]] - kept;
        int64_t sent = overlap(first, end, owned, until) + (graph->arc_rank[arc] == source ? kept : 0);
        sends[graph->arc_slot[arc]] = (int32_t)sent;
        owned = until;
    }
}

void eplb_batch_sends(const struct eplb_split_graph *graph, const int32_t *counts, const int64_t *tokens,
                      int32_t source, int32_t *sends)
{
    EPLB_ASSERT(source >= 0 && source < graph->num_ranks);
    const int32_t *row = counts + (size_t)source * (size_t)graph->num_experts;
    for (int32_t expert = 0; expert < graph->num_experts; expert++)
        if (graph->home_slot[expert] >= 0)
            sends[graph->home_slot[expert]] = row[expert];
    for (int32_t shared = 0; shared < graph->num_shared; shared++)
        send_shared(&(struct division){graph, counts, tokens, shared}, source, sends);
}

/** What every source sends to one arc. */
static void receive_shared(const struct division *division, int32_t arc, int32_t *column)
{
    const struct eplb_split_graph *graph = division->graph;
    int32_t first_arc = graph->first[division->shared];
    int32_t end_arc = graph->first[division->shared + 1];
    int64_t owned = 0;
    for (int32_t before = first_arc; before < arc; before++)
        owned += division->tokens[graph->arc_slot[before]] - kept_by(division, before);
    int64_t own_kept = kept_by(division, arc);
    int64_t until = owned + division->tokens[graph->arc_slot[arc]] - own_kept;
    int64_t first = 0;
    int32_t next = first_arc; /* arcs ascend by rank, one at most on each */
    for (int32_t source = 0; source < graph->num_ranks; source++) {
        int64_t kept = 0;
        if (next < end_arc && graph->arc_rank[next] == source)
            kept = kept_by(division, next++);
        int64_t end = first + count_of(division, source) - kept;
        int64_t sent = overlap(first, end, owned, until);
        column[(size_t)source * (size_t)graph->slots_per_rank] =
            (int32_t)(sent + (source == graph->arc_rank[arc] ? own_kept : 0));
        first = end;
    }
}

void eplb_batch_receives(const struct eplb_split_graph *graph, const int32_t *counts, const int64_t *tokens,
                         int32_t rank, int32_t *receives)
{
    EPLB_ASSERT(rank >= 0 && rank < graph->num_ranks);
    int32_t first_slot = rank * graph->slots_per_rank;
    for (int32_t expert = 0; expert < graph->num_experts; expert++) {
        if (graph->home_rank[expert] != rank)
            continue;
        int32_t *column = receives + (graph->home_slot[expert] - first_slot);
        for (int32_t source = 0; source < graph->num_ranks; source++)
            column[(size_t)source * (size_t)graph->slots_per_rank] =
                counts[(size_t)source * (size_t)graph->num_experts + (size_t)expert];
    }
    for (int32_t entry = graph->rank_first[rank]; entry < graph->rank_first[rank + 1]; entry++) {
        struct division division = {graph, counts, tokens, graph->rank_shared[entry]};
        int32_t arc = graph->rank_arc[entry];
        receive_shared(&division, arc, receives + (graph->arc_slot[arc] - first_slot));
    }
}

int32_t eplb_batch_slot(const struct eplb_split_graph *graph, const int32_t *sends, int32_t expert,
                        int32_t number)
{
    int32_t home = graph->home_slot[expert];
    if (home >= 0)
        return home;
    int32_t arc = graph->first[-1 - home];
    for (int32_t last = graph->first[-home] - 1; arc < last; arc++) {
        if (number < sends[graph->arc_slot[arc]])
            break;
        number -= sends[graph->arc_slot[arc]];
    }
    return graph->arc_slot[arc];
}
