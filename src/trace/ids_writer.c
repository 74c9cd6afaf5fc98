/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * The sidecar is created first, empty and only if it is not there: it is what keeps two recordings of one
 * name apart, whatever their endings. The ids are appended and never touched again; the sidecar is replaced
 * as a whole, the last time after all ids are on the disk.
 */
#include "trace/ids_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "eplb/placement.h"
#include "os/file.h"
#include "trace/text.h"

enum { BUFFER_BYTES = 65536, MOST_BYTE_EXPERTS = 256 };

struct eplb_ids_writer {
    char *data_path;
    char *sidecar_path;
    int descriptor; /* of the ids, -1 before they are created */
    size_t item_bytes;
    size_t token_bytes;
    int32_t num_layers, top_k, num_experts;
    bool is_prefill;
    int32_t *layer_ids;    /* [num_layers] */
    unsigned char *buffer; /* [buffer_tokens] tokens as they are written */
    int64_t buffer_tokens;
    int64_t num_tokens;    /* written whole */
    int32_t num_sequences; /* of each step; 0: there is no such axis */
    bool broken;           /* what lies after them could not be removed */
};

static void writer_free(struct eplb_ids_writer *writer)
{
    if (writer->descriptor >= 0)
        close(writer->descriptor);
    free(writer->buffer);
    free(writer->layer_ids);
    free(writer->sidecar_path);
    free(writer->data_path);
    free(writer);
}

/** The axes, and the shape up to the layers; returns the steps. */
static int64_t add_axes(struct eplb_text *text, const struct eplb_ids_writer *writer, int64_t num_tokens)
{
    int32_t sequences = writer->num_sequences;
    bool has_sequences = num_tokens > 0 && sequences > 0 && num_tokens % sequences == 0;
    int64_t steps = has_sequences ? num_tokens / sequences : num_tokens;
    eplb_text_add(text, "  \"axes\": [%s, \"layer\", \"k\"],\n",
                  has_sequences ? "\"step\", \"sequence\"" : "\"token\"");
    eplb_text_add(text, "  \"shape\": [%" PRId64 ", ", steps);
    if (has_sequences)
        eplb_text_add(text, "%" PRId32 ", ", sequences);
    return steps;
}

static void add_lists(struct eplb_text *text, const struct eplb_ids_writer *writer, int64_t num_tokens)
{
    int64_t steps = add_axes(text, writer, num_tokens);
    eplb_text_add(text, "%" PRId32 ", %" PRId32 "],\n", writer->num_layers, writer->top_k);
    eplb_text_add(text, "  \"layer_ids\": [");
    for (int32_t layer = 0; layer < writer->num_layers; layer++)
        eplb_text_add(text, "%s%" PRId32, layer == 0 ? "" : ", ", writer->layer_ids[layer]);
    eplb_text_add(text, "],\n");
    if (steps > 0)
        eplb_text_add(
            text, "  \"phases\": [{\"name\": \"" EPLB_IDS_WHOLE "\", \"first\": 0, \"end\": %" PRId64 "}],\n",
            steps);
}

/* num_tokens is -1 while the recording is open. */
static enum eplb_status write_sidecar(const struct eplb_ids_writer *writer, int64_t num_tokens,
                                      struct eplb_error *error)
{
    struct eplb_text text = {0};
    eplb_text_add(&text, "{\n  \"format\": \"eplb-ids-1\",\n");
    add_lists(&text, writer, num_tokens);
    eplb_text_add(&text,
                  "  \"dtype\": \"%s\",\n  \"num_experts\": %" PRId32 ",\n  \"top_k\": %" PRId32
                  ",\n  \"kind\": \"%s\"\n}\n",
                  writer->item_bytes == 1 ? "uint8" : "uint16", writer->num_experts, writer->top_k,
                  writer->is_prefill ? "prefill" : "decode");
    enum eplb_status status =
        text.failed ? eplb_fail(error, EPLB_NO_MEMORY, "no memory for the text of %s", writer->sidecar_path)
                    : eplb_file_write_atomic(writer->sidecar_path, text.bytes, text.length, error);
    eplb_text_free(&text);
    return status;
}

static char *join(const char *prefix, const char *ending)
{
    size_t length = strlen(prefix);
    size_t tail = strlen(ending) + 1;
    char *path = malloc(length + tail);
    if (path == NULL)
        return NULL;
    memcpy(path, prefix, length);
    memcpy(path + length, ending, tail);
    return path;
}

static bool allocate(const struct eplb_ids_writer_params *params, struct eplb_ids_writer *writer)
{
    size_t tokens = BUFFER_BYTES / writer->token_bytes;
    writer->buffer_tokens = tokens == 0 ? 1 : (int64_t)tokens;
    writer->data_path = join(params->prefix, writer->item_bytes == 1 ? ".ids.u8" : ".ids.u16");
    writer->sidecar_path = join(params->prefix, ".json");
    writer->layer_ids = calloc((size_t)writer->num_layers, sizeof *writer->layer_ids);
    writer->buffer = calloc((size_t)writer->buffer_tokens, writer->token_bytes);
    if (writer->data_path == NULL || writer->sidecar_path == NULL || writer->layer_ids == NULL ||
        writer->buffer == NULL)
        return false;
    for (int32_t layer = 0; layer < writer->num_layers; layer++)
        writer->layer_ids[layer] = params->layer_ids == NULL ? layer : params->layer_ids[layer];
    return true;
}

static enum eplb_status create_new(const char *path, int *descriptor, struct eplb_error *error)
{
    int made = open(path, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (made < 0 && errno == EEXIST)
        EPLB_FAIL(EPLB_INVALID, "%s is there already; a recording replaces nothing, give another name",
                  eplb_input_name(path));
    if (made < 0)
        EPLB_FAIL(EPLB_INVALID, "cannot create %s: %s", eplb_input_name(path), strerror(errno));
    *descriptor = made;
    return EPLB_OK;
}

static enum eplb_status create_files(struct eplb_ids_writer *writer, struct eplb_error *error)
{
    int placeholder = -1;
    EPLB_TRY(create_new(writer->sidecar_path, &placeholder, error));
    close(placeholder);
    enum eplb_status status = create_new(writer->data_path, &writer->descriptor, error);
    if (status != EPLB_OK)
        goto remove_sidecar;
    status = write_sidecar(writer, -1, error);
    if (status == EPLB_OK)
        return EPLB_OK;
    unlink(writer->data_path);
remove_sidecar:
    unlink(writer->sidecar_path);
    return status;
}

static enum eplb_status check_prefix(const char *prefix, struct eplb_error *error)
{
    if (prefix[0] == '\0')
        EPLB_FAIL(EPLB_INVALID, "a recording has a name: that of its files without .ids.u8 and .json");
    if (eplb_ids_is_name(prefix))
        EPLB_FAIL(EPLB_INVALID, "%s: the name of a recording is given without .ids.u8 or .ids.u16",
                  eplb_input_name(prefix));
    return EPLB_OK;
}

enum eplb_status eplb_ids_writer_create(const struct eplb_ids_writer_params *params,
                                        struct eplb_ids_writer **writer, struct eplb_error *error)
{
    EPLB_ASSERT(params->num_layers > 0 && params->num_layers <= EPLB_MAX_LAYERS);
    EPLB_ASSERT(params->num_experts > 0 && params->num_experts <= EPLB_MAX_EXPERTS);
    EPLB_ASSERT(params->top_k > 0 && params->top_k <= params->num_experts);
    EPLB_TRY(check_prefix(params->prefix, error));
    struct eplb_ids_writer *made = malloc(sizeof *made);
    if (made == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory to record %s", eplb_input_name(params->prefix));
    size_t item_bytes = params->num_experts <= MOST_BYTE_EXPERTS ? 1 : 2;
    *made = (struct eplb_ids_writer){
        .descriptor = -1,
        .item_bytes = item_bytes,
        .token_bytes = item_bytes * (size_t)params->num_layers * (size_t)params->top_k,
        .num_layers = params->num_layers,
        .top_k = params->top_k,
        .num_experts = params->num_experts,
        .is_prefill = params->is_prefill,
    };
    enum eplb_status status =
        allocate(params, made)
            ? create_files(made, error)
            : eplb_fail(error, EPLB_NO_MEMORY, "no memory to record %s", eplb_input_name(params->prefix));
    if (status != EPLB_OK) {
        writer_free(made);
        return status;
    }
    *writer = made;
    return EPLB_OK;
}

static enum eplb_status check_tokens(const struct eplb_ids_writer *writer, const int32_t *experts,
                                     int64_t num_tokens, struct eplb_error *error)
{
    const char *name = eplb_input_name(writer->data_path);
    int64_t most = (int64_t)(EPLB_MAX_FILE_BYTES / writer->token_bytes);
    most = most > INT32_MAX ? INT32_MAX : most;
    if (writer->broken)
        EPLB_FAIL(EPLB_IO, "%s has ended: writing to it failed before", name);
    if (num_tokens > most - writer->num_tokens)
        EPLB_FAIL(EPLB_REFUSED, "%s is full: a recording has at most %" PRId64 " tokens of this shape", name,
                  most);
    size_t token_ids = (size_t)writer->num_layers * (size_t)writer->top_k;
    for (size_t i = 0; i < (size_t)num_tokens * token_ids; i++)
        if (experts[i] < 0 || experts[i] >= writer->num_experts)
            EPLB_FAIL(EPLB_INVALID,
                      "%s: token %zu, layer %d, k %zu is expert %d; ids are from 0 to %d: none was written",
                      name, (size_t)writer->num_tokens + i / token_ids,
                      writer->layer_ids[i % token_ids / (size_t)writer->top_k], i % (size_t)writer->top_k,
                      experts[i], writer->num_experts - 1);
    return EPLB_OK;
}

/* Returns 0, or the errno of the write that failed. */
static int write_all(int descriptor, const unsigned char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t count = write(descriptor, bytes, size);
        if (count < 0 && errno != EINTR)
            return errno;
        bytes += count > 0 ? count : 0;
        size -= count > 0 ? (size_t)count : 0;
    }
    return 0;
}

static int write_piece(struct eplb_ids_writer *writer, const int32_t *experts, int64_t num_tokens)
{
    size_t bytes = (size_t)num_tokens * writer->token_bytes;
    size_t count = bytes / writer->item_bytes;
    for (size_t i = 0; i < count; i++) {
        uint16_t expert = (uint16_t)experts[i];
        writer->buffer[i * writer->item_bytes] = (unsigned char)(expert & 0xff);
        if (writer->item_bytes == 2)
            writer->buffer[i * 2 + 1] = (unsigned char)(expert >> 8);
    }
    return write_all(writer->descriptor, writer->buffer, bytes);
}

enum eplb_status eplb_ids_writer_append(struct eplb_ids_writer *writer, const int32_t *experts,
                                        int64_t num_tokens, struct eplb_error *error)
{
    EPLB_ASSERT(num_tokens >= 0);
    EPLB_TRY(check_tokens(writer, experts, num_tokens, error));
    size_t token_ids = (size_t)writer->num_layers * (size_t)writer->top_k;
    int64_t done = 0;
    while (done < num_tokens) {
        int64_t piece = num_tokens - done < writer->buffer_tokens ? num_tokens - done : writer->buffer_tokens;
        int code = write_piece(writer, experts + (size_t)done * token_ids, piece);
        if (code != 0) {
            /* Half a token in the middle would shift all that follow. */
            off_t whole = (off_t)writer->num_tokens * (off_t)writer->token_bytes;
            writer->broken = ftruncate(writer->descriptor, whole) != 0;
            EPLB_FAIL(EPLB_IO, "cannot append to %s: %s", eplb_input_name(writer->data_path), strerror(code));
        }
        done += piece;
    }
    writer->num_tokens += num_tokens;
    return EPLB_OK;
}

static enum eplb_status finish(const struct eplb_ids_writer *writer, struct eplb_error *error)
{
    if (writer->broken)
        EPLB_FAIL(EPLB_IO, "%s stays without its final shape: writing to it failed before",
                  eplb_input_name(writer->data_path));
    if (fsync(writer->descriptor) != 0)
        EPLB_FAIL(EPLB_IO, "cannot write %s: %s", eplb_input_name(writer->data_path), strerror(errno));
    return write_sidecar(writer, writer->num_tokens, error);
}

void eplb_ids_writer_set_sequences(struct eplb_ids_writer *writer, int32_t num_sequences)
{
    EPLB_ASSERT(num_sequences >= 0 && num_sequences <= EPLB_MAX_IDS_SEQUENCES);
    writer->num_sequences = num_sequences;
}

enum eplb_status eplb_ids_writer_close(struct eplb_ids_writer *writer, struct eplb_error *error)
{
    enum eplb_status status = finish(writer, error);
    writer_free(writer);
    return status;
}
