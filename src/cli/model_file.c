/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/model_file.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/error.h"
#include "os/file.h"
#include "trace/json_input.h"

/** A key and the int32_t that it sets; the seed is the one wider member. */
struct member {
    const char *key;
    size_t offset;
};

#define MEMBER(name)                                    \
    {                                                   \
#name, offsetof(struct eplb_model_config, name) \
    }

static const struct member members[] = {
    MEMBER(vocab_size),         MEMBER(hidden_size),        MEMBER(num_layers),  MEMBER(num_heads),
    MEMBER(head_dim),           MEMBER(kv_window),          MEMBER(num_experts), MEMBER(top_k),
    MEMBER(expert_hidden_size), MEMBER(shared_hidden_size),
};

enum { NUM_MEMBERS = sizeof members / sizeof members[0] };

static enum eplb_status check_keys(const struct eplb_input *input, json_t *root, struct eplb_error *error)
{
    const char *known[NUM_MEMBERS + 2];
    for (size_t i = 0; i < NUM_MEMBERS; i++)
        known[i] = members[i].key;
    known[NUM_MEMBERS] = "format";
    known[NUM_MEMBERS + 1] = "seed";
    return eplb_json_check_keys(input, "the top level", root, known, NUM_MEMBERS + 2, error);
}

static enum eplb_status read_member(const struct eplb_input *input, const json_t *root,
                                    const struct member *member, struct eplb_model_config *config,
                                    struct eplb_error *error)
{
    const json_t *value = json_object_get(root, member->key);
    int64_t integer;
    if (value == NULL)
        return EPLB_OK;
    /* Its range is told by the check of the whole, which knows them all. */
    if (!eplb_json_integer(value, INT32_MIN, INT32_MAX, &integer))
        EPLB_FAIL(EPLB_INVALID, "%s: \"%s\" is %s; it must be an integer of at most 31 bits", input->name,
                  member->key, eplb_json_describe(value).text);
    *(int32_t *)(void *)((char *)config + member->offset) = (int32_t)integer;
    return EPLB_OK;
}

static enum eplb_status read_seed(const struct eplb_input *input, const json_t *root,
                                  struct eplb_model_config *config, struct eplb_error *error)
{
    const json_t *value = json_object_get(root, "seed");
    int64_t seed;
    if (value == NULL)
        return EPLB_OK;
    if (!eplb_json_integer(value, 0, INT64_MAX, &seed))
        EPLB_FAIL(EPLB_INVALID, "%s: \"seed\" is %s; it must be an integer from 0 to 2^63 - 1", input->name,
                  eplb_json_describe(value).text);
    config->seed = (uint64_t)seed;
    return EPLB_OK;
}

static enum eplb_status read_document(const struct eplb_input *input, json_t *root,
                                      struct eplb_model_config *config, struct eplb_error *error)
{
    struct eplb_model_config made;
    struct eplb_error reason;
    EPLB_TRY(
        eplb_json_check_format(input, root, "eplb-model-1", "JSON with \"format\":\"eplb-model-1\"", error));
    EPLB_TRY(check_keys(input, root, error));
    eplb_model_config_init(&made);
    for (size_t i = 0; i < NUM_MEMBERS; i++)
        EPLB_TRY(read_member(input, root, &members[i], &made, error));
    EPLB_TRY(read_seed(input, root, &made, error));
    enum eplb_status status = eplb_model_config_check(&made, &reason);
    if (status != EPLB_OK)
        EPLB_FAIL(status, "%s: %s", input->name, reason.text);
    *config = made;
    return EPLB_OK;
}

enum eplb_status eplb_model_file_parse(const struct eplb_input *input, struct eplb_model_config *config,
                                       struct eplb_error *error)
{
    json_t *root;
    EPLB_TRY(eplb_json_parse(input, &root, error));
    enum eplb_status status = read_document(input, root, config, error);
    json_decref(root);
    return status;
}

enum eplb_status eplb_model_file_read(const char *path, struct eplb_model_config *config,
                                      struct eplb_error *error)
{
    char *bytes;
    size_t size;
    EPLB_TRY(eplb_file_read(path, &bytes, &size, error));
    struct eplb_input input = {.name = eplb_input_name(path), .bytes = bytes, .size = size};
    enum eplb_status status = eplb_model_file_parse(&input, config, error);
    free(bytes);
    return status;
}
