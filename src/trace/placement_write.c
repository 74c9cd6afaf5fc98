/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "trace/placement_file.h"

#include <inttypes.h>
#include <math.h>

#include "base/assert.h"
#include "base/error.h"

static const char *separator(int32_t index)
{
    return index == 0 ? "" : ", ";
}

static const char *line_end(int32_t row, int32_t rows)
{
    return row + 1 < rows ? "," : "";
}

static void add_layer_ids(struct eplb_text *text, const struct eplb_placement_file *file)
{
    eplb_text_add(text, "  \"layer_ids\": [");
    for (int32_t layer = 0; layer < file->shape.num_layers; layer++)
        eplb_text_add(text, "%s%" PRId32, separator(layer), file->layer_ids[layer]);
    eplb_text_add(text, "],\n");
}

static void add_table(struct eplb_text *text, const char *key, const struct eplb_shape *shape,
                      const int32_t *entries)
{
    eplb_text_add(text, "  \"%s\": [\n", key);
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        eplb_text_add(text, "    [");
        for (int32_t rank = 0; rank < shape->ep_size; rank++) {
            eplb_text_add(text, "%s[", separator(rank));
            for (int32_t slot = 0; slot < shape->slots_per_rank; slot++)
                eplb_text_add(text, "%s%" PRId32, separator(slot), *entries++);
            eplb_text_add(text, "]");
        }
        eplb_text_add(text, "]%s\n", line_end(layer, shape->num_layers));
    }
    eplb_text_add(text, "  ],\n");
}

static void add_figure(struct eplb_text *text, const char *key, double figure)
{
    eplb_text_add(text, ", \"%s\": ", key);
    eplb_text_add_real(text, figure);
}

static void add_replicas(struct eplb_text *text, const int32_t *replicas, int32_t num_experts)
{
    eplb_text_add(text, ", \"replicas\": [");
    for (int32_t expert = 0; expert < num_experts; expert++)
        eplb_text_add(text, "%s%" PRId32, separator(expert), replicas[expert]);
    eplb_text_add(text, "]");
}

static void add_cut(struct eplb_text *text, const struct eplb_placement_prediction *predicted,
                    int32_t ep_size)
{
    int32_t count = 0;
    eplb_text_add(text, ", \"densest_cut\": {\"ranks\": [");
    for (int32_t rank = 0; rank < ep_size; rank++)
        if (predicted->cut[rank / 64] >> (rank % 64) & 1)
            eplb_text_add(text, "%s%" PRId32, separator(count++), rank);
    eplb_text_add(text, "]");
    add_figure(text, "load", predicted->cut_load);
    eplb_text_add(text, "}");
}

static void add_predicted(struct eplb_text *text, const struct eplb_placement_file *file,
                          const struct eplb_placement_prediction *predicted)
{
    eplb_text_add(text, ",\n  \"predicted\": [\n");
    for (int32_t layer = 0; layer < file->shape.num_layers; layer++) {
        eplb_text_add(text, "    {\"layer\": %" PRId32, file->layer_ids[layer]);
        add_figure(text, "peak", predicted[layer].peak);
        add_figure(text, "mean", predicted[layer].mean);
        add_figure(text, "lower_bound", predicted[layer].lower_bound);
        add_figure(text, "even_split_peak", predicted[layer].even_split_peak);
        add_figure(text, "best_split_peak", predicted[layer].best_split_peak);
        eplb_text_add(text, ", \"components\": %" PRId32, predicted[layer].components);
        if (predicted[layer].cut != NULL)
            add_cut(text, &predicted[layer], file->shape.ep_size);
        if (predicted[layer].replicas != NULL)
            add_replicas(text, predicted[layer].replicas, file->shape.num_experts);
        eplb_text_add(text, "}%s\n", line_end(layer, file->shape.num_layers));
    }
    eplb_text_add(text, "  ]");
}

static void add_cost(struct eplb_text *text, const struct eplb_placement_verdict *gate)
{
    eplb_text_add(text, ", \"moved_slots\": %" PRId32 ", \"sent_slots\": %" PRId32, gate->moved_slots,
                  gate->sent_slots);
    if (gate->bytes >= 0)
        eplb_text_add(text, ", \"bytes\": %" PRId64, gate->bytes);
    else
        eplb_text_add(text, ", \"bytes\": null");
    if (gate->break_even_forwards >= 0 && isfinite(gate->break_even_forwards))
        add_figure(text, "break_even_forwards", gate->break_even_forwards);
    else
        eplb_text_add(text, ", \"break_even_forwards\": null");
    eplb_text_add(text, ", \"pays\": %s",
                  gate->break_even_forwards < 0 ? "null"
                  : gate->pays                  ? "true"
                                                : "false");
}

static void add_gate(struct eplb_text *text, const struct eplb_placement_file *file,
                     const struct eplb_placement_verdict *gate)
{
    eplb_text_add(text, ",\n  \"gate\": [\n");
    for (int32_t layer = 0; layer < file->shape.num_layers; layer++) {
        eplb_text_add(text, "    {\"layer\": %" PRId32 ", \"publish\": %s", file->layer_ids[layer],
                      gate[layer].publish ? "true" : "false");
        add_figure(text, "current_peak", gate[layer].current_peak);
        add_figure(text, "candidate_peak", gate[layer].candidate_peak);
        add_figure(text, "improvement", gate[layer].improvement);
        add_figure(text, "unbounded_peak", gate[layer].unbounded_peak);
        add_cost(text, &gate[layer]);
        eplb_text_add(text, "}%s\n", line_end(layer, file->shape.num_layers));
    }
    eplb_text_add(text, "  ]");
}

enum eplb_status eplb_placement_file_write(const struct eplb_placement_file *file,
                                           const struct eplb_placement_prediction *predicted,
                                           const struct eplb_placement_verdict *gate, struct eplb_text *text,
                                           struct eplb_error *error)
{
    const struct eplb_shape *shape = &file->shape;
    EPLB_ASSERT(shape->num_layers > 0);
    eplb_text_add(text,
                  "{\n  \"format\": \"eplb-placement-1\",\n  \"num_experts\": %" PRId32
                  ",\n  \"ep_size\": %" PRId32 ",\n  \"slots_per_rank\": %" PRId32 ",\n",
                  shape->num_experts, shape->ep_size, shape->slots_per_rank);
    add_layer_ids(text, file);
    add_table(text, "expert_ids", shape, file->expert_ids);
    if (file->weights != NULL)
        add_table(text, "weights", shape, file->weights);
    eplb_text_add(text, "  \"policy\": ");
    eplb_text_add_string(text, file->policy);
    if (file->replica_routing[0] != '\0') {
        eplb_text_add(text, ",\n  \"replica_routing\": ");
        eplb_text_add_string(text, file->replica_routing);
    }
    if (predicted != NULL)
        add_predicted(text, file, predicted);
    if (gate != NULL)
        add_gate(text, file, gate);
    eplb_text_add(text, "\n}\n");
    if (text->failed)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the text of a placement of %" PRId32 " layers",
                  shape->num_layers);
    return EPLB_OK;
}
