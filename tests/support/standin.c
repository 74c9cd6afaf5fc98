/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "support/standin.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "eplb/clock.h"
#include "os/thread.h"

enum {
    NOT_AN_EXPERT = -1, /* in a fingerprint: of a tensor that never moves */
    INPUT_SCALE = 3,    /* of layer 0, one more each */
    SAMPLES = 4,        /* words of a tensor that a token's output depends on */
};

/** What the model itself keeps with a plan. */
struct pending {
    struct eplb_prepare_token token;
    int32_t *log2phy; /* [num_experts] */
};

struct standin {
    struct eplb_shape shape;
    int32_t ep_rank;
    uint64_t checkpoint;
    int64_t matrix_bytes;
    struct eplb_weights *weights;
    struct eplb_tensor *tensors; /* [num_layers][STANDIN_TENSORS] */
    int32_t *log2phy;            /* [num_layers][num_experts] */
    int32_t *expected_map;       /* [num_experts] scratch of the check */
    struct pending pending[EPLB_MAX_PLANS];
    struct eplb_model_hooks hooks;

    struct eplb_mutex lock; /* everything below */
    struct eplb_condition changed;
    struct standin_fault faults[STANDIN_HOOKS];
    bool hanging[STANDIN_HOOKS];
    uint64_t calls[STANDIN_HOOKS];
    uint64_t commits;
};

/* ------------------------------------------------------------------------------- fingerprints */

static uint64_t mix(uint64_t value)
{
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

static uint64_t key_of(const struct standin *model, int32_t layer, int32_t expert, int tensor)
{
    uint64_t place = (uint64_t)layer << 32 | (uint32_t)expert;
    return mix(mix(model->checkpoint * STANDIN_TENSORS + (uint64_t)tensor + 1) ^ mix(place));
}

/** Bytes [8 * index, 8 * index + 8) of a fingerprint. */
static uint64_t fingerprint_word(uint64_t key, size_t index)
{
    return mix(key + index * UINT64_C(0x9e3779b97f4a7c15));
}

static void fingerprint_write(uint64_t key, size_t first_word, unsigned char *bytes, size_t size)
{
    for (size_t done = 0; done < size; done += sizeof(uint64_t)) {
        uint64_t word = fingerprint_word(key, first_word + done / sizeof word);
        memcpy(bytes + done, &word, size - done < sizeof word ? size - done : sizeof word);
    }
}

/** Offset of the first byte that differs; `size` when none does. */
static size_t fingerprint_compare(uint64_t key, const unsigned char *bytes, size_t size)
{
    unsigned char expected[512];
    for (size_t done = 0; done < size; done += sizeof expected) {
        size_t length = size - done < sizeof expected ? size - done : sizeof expected;
        fingerprint_write(key, done / sizeof(uint64_t), expected, length);
        if (memcmp(bytes + done, expected, length) == 0)
            continue;
        while (bytes[done] == expected[done % sizeof expected])
            done++;
        return done;
    }
    return size;
}

static uint32_t scale_of(const struct standin *model, int32_t layer, int32_t expert)
{
    return (uint32_t)(model->checkpoint * 100 + (uint64_t)layer * 100000 + 10 * ((uint64_t)expert + 1));
}

static uint64_t alpha_of(const struct standin *model, int32_t layer, int32_t expert)
{
    return (uint64_t)(INPUT_SCALE + layer) * scale_of(model, layer, expert);
}

/* ------------------------------------------------------------------------------------- tensors */

int64_t standin_expert_bytes(int64_t matrix_bytes)
{
    return 1 + 3 + 17 + matrix_bytes + (int64_t)sizeof(uint32_t) + (int64_t)sizeof(uint64_t);
}

/** The tensor as it is to be registered, without its memory. */
static struct eplb_tensor describe(const struct eplb_shape *shape, int64_t matrix_bytes, int tensor)
{
    const struct {
        const char *name;
        int64_t first_dimension;
        int64_t bytes;
    } rows[STANDIN_TENSORS] = {
        [STANDIN_GATE] = {"gate", shape->slots_per_rank, 1},
        [STANDIN_BIAS] = {"bias", shape->slots_per_rank, 3},
        [STANDIN_DOWN] = {"down", shape->slots_per_rank, 17},
        [STANDIN_MATRIX] = {"matrix", shape->slots_per_rank, matrix_bytes},
        [STANDIN_SCALE] = {"scale", shape->slots_per_rank, sizeof(uint32_t)},
        [STANDIN_ALPHA] = {"alpha", shape->slots_per_rank, sizeof(uint64_t)},
        [STANDIN_ROUTER] = {"router", shape->num_experts, 5 * shape->num_experts},
        [STANDIN_SHARED] = {"shared_expert", 1, 37},
        [STANDIN_SCALAR] = {"scalar", 0, sizeof(uint64_t)},
    };
    return (struct eplb_tensor){.size = sizeof(struct eplb_tensor),
                                .name = rows[tensor].name,
                                .first_dimension = rows[tensor].first_dimension,
                                .bytes_per_expert = rows[tensor].bytes,
                                .per_expert =
                                    tensor < STANDIN_PER_EXPERT ? EPLB_PER_EXPERT_YES : EPLB_PER_EXPERT_NO};
}

static size_t tensor_bytes(const struct eplb_tensor *tensor)
{
    int64_t pieces = tensor->per_expert == EPLB_PER_EXPERT_YES ? tensor->first_dimension : 1;
    return (size_t)(pieces * tensor->bytes_per_expert);
}

/** A block that holds the tensor at an odd address behind it: nothing may count on alignment. */
static void *allocate(const struct eplb_tensor *tensor)
{
    unsigned char *block = malloc(tensor_bytes(tensor) + 1);
    return block == NULL ? NULL : block + 1;
}

static void release(const struct eplb_tensor *tensor)
{
    if (tensor->data != NULL)
        free((unsigned char *)tensor->data - 1);
}

static struct eplb_tensor *tensor_at(const struct standin *model, int32_t layer, int tensor)
{
    return &model->tensors[layer * STANDIN_TENSORS + tensor];
}

static unsigned char *piece_at(const struct standin *model, int32_t layer, int tensor, int32_t local_slot)
{
    const struct eplb_tensor *whole = tensor_at(model, layer, tensor);
    return (unsigned char *)whole->data + local_slot * whole->bytes_per_expert;
}

static void load_slot(const struct standin *model, int32_t layer, int32_t slot, int32_t expert)
{
    uint32_t scale = scale_of(model, layer, expert);
    uint64_t alpha = alpha_of(model, layer, expert);
    for (int tensor = STANDIN_GATE; tensor <= STANDIN_MATRIX; tensor++)
        fingerprint_write(key_of(model, layer, expert, tensor), 0, piece_at(model, layer, tensor, slot),
                          (size_t)tensor_at(model, layer, tensor)->bytes_per_expert);
    memcpy(piece_at(model, layer, STANDIN_SCALE, slot), &scale, sizeof scale);
    memcpy(piece_at(model, layer, STANDIN_ALPHA, slot), &alpha, sizeof alpha);
}

static const int32_t *own_experts(const struct standin *model, const int32_t *tables, int32_t layer)
{
    return tables + (size_t)layer * (size_t)model->shape.num_slots +
           (size_t)model->ep_rank * (size_t)model->shape.slots_per_rank;
}

static void load_layer(struct standin *model, int32_t layer, const int32_t *tables)
{
    for (int32_t slot = 0; slot < model->shape.slots_per_rank; slot++)
        load_slot(model, layer, slot, own_experts(model, tables, layer)[slot]);
    for (int tensor = STANDIN_PER_EXPERT; tensor < STANDIN_TENSORS; tensor++)
        fingerprint_write(key_of(model, layer, NOT_AN_EXPERT, tensor), 0, piece_at(model, layer, tensor, 0),
                          tensor_bytes(tensor_at(model, layer, tensor)));
}

enum eplb_status standin_load(struct standin *model, uint64_t checkpoint, const int32_t *tables,
                              struct eplb_error *error)
{
    model->checkpoint = checkpoint;
    for (int32_t layer = 0; layer < model->shape.num_layers; layer++) {
        load_layer(model, layer, tables);
        for (int tensor = 0; tensor < STANDIN_TENSORS; tensor++)
            EPLB_TRY(eplb_weights_reregister(model->weights, layer, tensor, tensor_at(model, layer, tensor),
                                             error));
    }
    return EPLB_OK;
}

enum eplb_status standin_relocate(struct standin *model, int32_t layer, enum standin_tensor tensor,
                                  struct eplb_error *error)
{
    struct eplb_tensor *moved = tensor_at(model, layer, (int)tensor);
    struct eplb_tensor old = *moved;
    moved->data = allocate(moved);
    if (moved->data == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for tensor %s", moved->name);
    memcpy(moved->data, old.data, tensor_bytes(moved));
    release(&old);
    return eplb_weights_reregister(model->weights, layer, (int32_t)tensor, moved, error);
}

/* ---------------------------------------------------------------------------------------- hooks */

/** Does to a hook's call what the test has ordered. */
static enum eplb_status suffer(struct standin *model, enum standin_hook hook, struct eplb_error *error)
{
    eplb_mutex_lock(&model->lock);
    const struct standin_fault *fault = &model->faults[hook];
    model->calls[hook]++;
    int64_t end = eplb_clock_system()->now(NULL) + fault->delay_ns;
    while (fault->delay_ns > 0 && eplb_condition_wait_until(&model->changed, &model->lock, end))
        continue;
    while (fault->mood == STANDIN_HANGS) {
        model->hanging[hook] = true;
        eplb_condition_broadcast(&model->changed);
        eplb_condition_wait(&model->changed, &model->lock);
    }
    model->hanging[hook] = false;
    bool fails = fault->mood == STANDIN_FAILS;
    eplb_mutex_unlock(&model->lock);
    return fails ? eplb_fail(error, EPLB_NO_MEMORY, "the stand-in was told to fail") : EPLB_OK;
}

static enum eplb_status prepare_expert_weight(void *context, const struct eplb_layer_plan *plan,
                                              struct eplb_error *error)
{
    struct standin *model = context;
    struct pending *pending = &model->pending[plan->place];
    size_t map_bytes = (size_t)model->shape.num_experts * sizeof *pending->log2phy;
    EPLB_TRY(suffer(model, STANDIN_PREPARE, error));
    pending->token = plan->token;
    eplb_log2phy(&model->shape, plan->expert_ids, model->ep_rank, 0, pending->log2phy);
    if (memcmp(pending->log2phy, plan->log2phy, map_bytes) != 0)
        EPLB_FAIL(EPLB_INCONSISTENT, "rank %d, layer %d: the plan's map is not that of its table",
                  model->ep_rank, plan->layer);
    return EPLB_OK;
}

static enum eplb_status start_expert_weight_transfer(void *context, const struct eplb_layer_plan *plan,
                                                     struct eplb_error *error)
{
    struct standin *model = context;
    EPLB_TRY(suffer(model, STANDIN_START, error));
    if (model->pending[plan->place].token.value != plan->token.value)
        EPLB_FAIL(EPLB_INCONSISTENT, "rank %d, layer %d: prepare_token %" PRIu64 " was never prepared here",
                  model->ep_rank, plan->layer, plan->token.value);
    return eplb_weights_materialise(model->weights, plan, error);
}

static void update_expert_weight(void *context, const struct eplb_layer_plan *plan, int commit)
{
    struct standin *model = context;
    size_t experts = (size_t)model->shape.num_experts;
    (void)suffer(model, STANDIN_UPDATE, NULL);
    if (!commit)
        return;
    eplb_weights_activate(model->weights, plan);
    memcpy(model->log2phy + (size_t)plan->layer * experts, model->pending[plan->place].log2phy,
           experts * sizeof *model->log2phy);
    eplb_mutex_lock(&model->lock);
    model->commits++;
    eplb_mutex_unlock(&model->lock);
}

void standin_set_fault(struct standin *model, enum standin_hook hook, struct standin_fault fault)
{
    eplb_mutex_lock(&model->lock);
    model->faults[hook] = fault;
    eplb_condition_broadcast(&model->changed);
    eplb_mutex_unlock(&model->lock);
}

bool standin_await_hang(struct standin *model, enum standin_hook hook, int64_t deadline)
{
    eplb_mutex_lock(&model->lock);
    while (!model->hanging[hook] && eplb_condition_wait_until(&model->changed, &model->lock, deadline))
        continue;
    bool hangs = model->hanging[hook];
    eplb_mutex_unlock(&model->lock);
    return hangs;
}

static uint64_t read_count(struct standin *model, const uint64_t *count)
{
    eplb_mutex_lock(&model->lock);
    uint64_t value = *count;
    eplb_mutex_unlock(&model->lock);
    return value;
}

uint64_t standin_calls(struct standin *model, enum standin_hook hook)
{
    return read_count(model, &model->calls[hook]);
}

uint64_t standin_commits(struct standin *model)
{
    return read_count(model, &model->commits);
}

/* --------------------------------------------------------------------------------------- create */

static enum eplb_status allocate_arrays(struct standin *model, struct eplb_error *error)
{
    size_t layers = (size_t)model->shape.num_layers;
    size_t experts = (size_t)model->shape.num_experts;
    bool lacks = false;
    model->tensors = calloc(layers * STANDIN_TENSORS, sizeof *model->tensors);
    model->log2phy = calloc(layers * experts, sizeof *model->log2phy);
    model->expected_map = calloc(experts, sizeof *model->expected_map);
    for (int32_t place = 0; place < EPLB_MAX_PLANS; place++) {
        model->pending[place].log2phy = calloc(experts, sizeof *model->pending[place].log2phy);
        lacks = lacks || model->pending[place].log2phy == NULL;
    }
    if (lacks || model->tensors == NULL || model->log2phy == NULL || model->expected_map == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a stand-in model");
    for (size_t i = 0; i < layers * STANDIN_TENSORS; i++) {
        model->tensors[i] = describe(&model->shape, model->matrix_bytes, (int)(i % STANDIN_TENSORS));
        model->tensors[i].data = allocate(&model->tensors[i]);
        if (model->tensors[i].data == NULL)
            EPLB_FAIL(EPLB_NO_MEMORY, "no memory for tensor %s", model->tensors[i].name);
    }
    return EPLB_OK;
}

static void load_initial(struct standin *model, const int32_t *tables)
{
    size_t experts = (size_t)model->shape.num_experts;
    for (int32_t layer = 0; layer < model->shape.num_layers; layer++) {
        load_layer(model, layer, tables);
        eplb_log2phy(&model->shape, tables + (size_t)layer * (size_t)model->shape.num_slots, model->ep_rank,
                     0, model->log2phy + (size_t)layer * experts);
    }
}

static enum eplb_status fill(struct standin *model, const struct standin_params *params,
                             struct eplb_error *error)
{
    EPLB_TRY(allocate_arrays(model, error));
    size_t layers = (size_t)model->shape.num_layers;
    size_t slots = (size_t)model->shape.num_slots;
    int32_t *tables = calloc(layers * slots, sizeof *tables);
    if (tables == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the tables of a stand-in model");
    for (size_t layer = 0; layer < layers; layer++)
        eplb_placement_initial(&model->shape, tables + layer * slots);
    load_initial(model, params->initial == NULL ? tables : params->initial);
    free(tables);
    struct eplb_weights_params registration = {.size = sizeof registration,
                                               .shape = model->shape,
                                               .ep_rank = model->ep_rank,
                                               .num_tensors = STANDIN_TENSORS,
                                               .tensors = model->tensors,
                                               .expert_bytes = standin_expert_bytes(model->matrix_bytes),
                                               .log = params->log};
    return eplb_weights_create(&registration, &model->weights, error);
}

enum eplb_status standin_create(const struct standin_params *params, struct standin **model,
                                struct eplb_error *error)
{
    struct standin *created = calloc(1, sizeof *created);
    if (created == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for a stand-in model");
    created->shape = params->shape;
    created->ep_rank = params->ep_rank;
    created->checkpoint = params->checkpoint;
    created->matrix_bytes = params->matrix_bytes;
    created->hooks = (struct eplb_model_hooks){.size = sizeof created->hooks,
                                               .context = created,
                                               .prepare_expert_weight = prepare_expert_weight,
                                               .start_expert_weight_transfer = start_expert_weight_transfer,
                                               .update_expert_weight = update_expert_weight};
    enum eplb_status status = eplb_mutex_init(&created->lock, error);
    if (status != EPLB_OK)
        goto undo_model;
    status = eplb_condition_init(&created->changed, error);
    if (status != EPLB_OK)
        goto undo_lock;
    status = fill(created, params, error);
    if (status == EPLB_OK) {
        *model = created;
        return EPLB_OK;
    }
    standin_destroy(created);
    return status;
undo_lock:
    eplb_mutex_destroy(&created->lock);
undo_model:
    free(created);
    return status;
}

void standin_destroy(struct standin *model)
{
    if (model == NULL)
        return;
    eplb_weights_destroy(model->weights);
    for (int32_t i = 0; model->tensors != NULL && i < model->shape.num_layers * STANDIN_TENSORS; i++)
        release(&model->tensors[i]);
    for (int32_t place = 0; place < EPLB_MAX_PLANS; place++)
        free(model->pending[place].log2phy);
    free(model->expected_map);
    free(model->log2phy);
    free(model->tensors);
    eplb_condition_destroy(&model->changed);
    eplb_mutex_destroy(&model->lock);
    free(model);
}

/* ---------------------------------------------------------------------------------------- views */

struct eplb_weights *standin_weights(struct standin *model)
{
    return model->weights;
}

const struct eplb_model_hooks *standin_hooks(const struct standin *model)
{
    return &model->hooks;
}

const int32_t *standin_log2phy(const struct standin *model, int32_t layer)
{
    return model->log2phy + (size_t)layer * (size_t)model->shape.num_experts;
}

struct eplb_tensor standin_tensor(const struct standin *model, int32_t layer, enum standin_tensor tensor)
{
    return *tensor_at(model, layer, (int)tensor);
}

int64_t standin_bytes(const struct standin *model)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < model->shape.num_layers * STANDIN_TENSORS; i++)
        bytes += (int64_t)tensor_bytes(&model->tensors[i]);
    return bytes;
}

uint32_t standin_scale(const struct standin *model, int32_t layer, int32_t local_slot)
{
    uint32_t scale;
    memcpy(&scale, piece_at(model, layer, STANDIN_SCALE, local_slot), sizeof scale);
    return scale;
}

static uint64_t read_alpha(const struct standin *model, int32_t layer, int32_t local_slot)
{
    uint64_t alpha;
    memcpy(&alpha, piece_at(model, layer, STANDIN_ALPHA, local_slot), sizeof alpha);
    return alpha;
}

/* ---------------------------------------------------------------------------------------- check */

static enum eplb_status check_bytes(const struct standin *model, int32_t layer, int tensor, int32_t slot,
                                    int32_t expert, size_t size, struct eplb_error *error)
{
    size_t at =
        fingerprint_compare(key_of(model, layer, expert, tensor), piece_at(model, layer, tensor, slot), size);
    if (at != size)
        EPLB_FAIL(EPLB_INCONSISTENT,
                  "rank %d, layer %d, slot %d: tensor %s is not expert %d's from byte %zu on", model->ep_rank,
                  layer, slot, tensor_at(model, layer, tensor)->name, expert, at);
    return EPLB_OK;
}

static enum eplb_status check_slot(const struct standin *model, int32_t layer, int32_t slot, int32_t expert,
                                   struct eplb_error *error)
{
    for (int tensor = STANDIN_GATE; tensor <= STANDIN_MATRIX; tensor++)
        EPLB_TRY(check_bytes(model, layer, tensor, slot, expert,
                             (size_t)tensor_at(model, layer, tensor)->bytes_per_expert, error));
    uint32_t scale = standin_scale(model, layer, slot);
    uint64_t alpha = read_alpha(model, layer, slot);
    if (scale != scale_of(model, layer, expert) || alpha != alpha_of(model, layer, expert))
        EPLB_FAIL(EPLB_INCONSISTENT,
                  "rank %d, layer %d, slot %d: scale %" PRIu32 " and alpha %" PRIu64
                  "; expert %d's are %" PRIu32 " and %" PRIu64,
                  model->ep_rank, layer, slot, scale, alpha, expert, scale_of(model, layer, expert),
                  alpha_of(model, layer, expert));
    return EPLB_OK;
}

static enum eplb_status check_map(const struct standin *model, int32_t layer, const int32_t *tables,
                                  struct eplb_error *error)
{
    eplb_log2phy(&model->shape, tables + (size_t)layer * (size_t)model->shape.num_slots, model->ep_rank, 0,
                 model->expected_map);
    for (int32_t expert = 0; expert < model->shape.num_experts; expert++) {
        int32_t slot = standin_log2phy(model, layer)[expert];
        if (slot != model->expected_map[expert])
            EPLB_FAIL(EPLB_INCONSISTENT, "rank %d, layer %d: expert %d is mapped to slot %d; it must be %d",
                      model->ep_rank, layer, expert, slot, model->expected_map[expert]);
    }
    return EPLB_OK;
}

enum eplb_status standin_check(const struct standin *model, const int32_t *tables, struct eplb_error *error)
{
    for (int32_t layer = 0; layer < model->shape.num_layers; layer++) {
        EPLB_TRY(check_map(model, layer, tables, error));
        for (int32_t slot = 0; slot < model->shape.slots_per_rank; slot++)
            EPLB_TRY(check_slot(model, layer, slot, own_experts(model, tables, layer)[slot], error));
        for (int tensor = STANDIN_PER_EXPERT; tensor < STANDIN_TENSORS; tensor++)
            EPLB_TRY(check_bytes(model, layer, tensor, 0, NOT_AN_EXPERT,
                                 tensor_bytes(tensor_at(model, layer, tensor)), error));
    }
    return EPLB_OK;
}

/* ------------------------------------------------------------------------------------- forwards */

/** The words of a tensor that a token looks at, as a caller reads or derives them. */
static size_t sample_index(uint64_t token, int tensor, int sample, size_t words)
{
    return (size_t)(mix(token * STANDIN_TENSORS + (uint64_t)tensor + (uint64_t)sample * 1000003) % words);
}

/** Whole words of a piece; a shorter one counts as a word of which only the first bytes are read. */
static size_t words_of(size_t size)
{
    return size < sizeof(uint64_t) ? 1 : size / sizeof(uint64_t);
}

static uint64_t low_bytes(uint64_t word, size_t size)
{
    uint64_t kept = 0;
    memcpy(&kept, &word, size < sizeof kept ? size : sizeof kept);
    return kept;
}

static uint64_t read_piece(const unsigned char *piece, size_t size, int tensor, uint64_t token)
{
    uint64_t sum = 0;
    for (int sample = 0; sample < SAMPLES; sample++) {
        uint64_t word = 0;
        size_t index = sample_index(token, tensor, sample, words_of(size));
        memcpy(&word, piece + index * sizeof word, size < sizeof word ? size : sizeof word);
        sum = mix(sum ^ word);
    }
    return sum;
}

static uint64_t expect_piece(uint64_t key, size_t size, int tensor, uint64_t token)
{
    uint64_t sum = 0;
    for (int sample = 0; sample < SAMPLES; sample++) {
        size_t index = sample_index(token, tensor, sample, words_of(size));
        sum = mix(sum ^ low_bytes(fingerprint_word(key, index), size));
    }
    return sum;
}

uint64_t standin_compute(const struct standin *model, int32_t layer, int32_t local_slot, uint64_t token)
{
    uint64_t output = token * read_alpha(model, layer, local_slot) + standin_scale(model, layer, local_slot);
    for (int tensor = STANDIN_GATE; tensor <= STANDIN_MATRIX; tensor++)
        output = mix(output + read_piece(piece_at(model, layer, tensor, local_slot),
                                         (size_t)tensor_at(model, layer, tensor)->bytes_per_expert, tensor,
                                         token));
    return output + read_piece(piece_at(model, layer, STANDIN_SHARED, 0),
                               tensor_bytes(tensor_at(model, layer, STANDIN_SHARED)), STANDIN_SHARED, token);
}

uint64_t standin_expected(const struct standin *model, int32_t layer, int32_t expert, uint64_t token)
{
    uint64_t output = token * alpha_of(model, layer, expert) + scale_of(model, layer, expert);
    for (int tensor = STANDIN_GATE; tensor <= STANDIN_MATRIX; tensor++)
        output = mix(output + expect_piece(key_of(model, layer, expert, tensor),
                                           (size_t)tensor_at(model, layer, tensor)->bytes_per_expert, tensor,
                                           token));
    return output + expect_piece(key_of(model, layer, NOT_AN_EXPERT, STANDIN_SHARED),
                                 tensor_bytes(tensor_at(model, layer, STANDIN_SHARED)), STANDIN_SHARED,
                                 token);
}
