/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/nodes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "config/number.h"
#include "config/option.h"
#include "trace/input.h"
/** Reads the next number of a list, which ends with the text; -1 when there is none. */
static int64_t next_number(const char **text)
{
    enum { MOST_DIGITS = 7 };
    char digits[MOST_DIGITS + 1];
    int64_t number;
    size_t length = strspn(*text, "0123456789");
    if (length < 1 || length > MOST_DIGITS)
        return -1;
    memcpy(digits, *text, length);
    digits[length] = '\0';
    *text += length;
    if (**text == ',' && (*text)[1] != '\0')
        ++*text;
    else if (**text != '\0')
        return -1;
    return eplb_integer_read(digits, &number) ? number : -1;
}

static enum eplb_status refuse_nodes(const struct eplb_options *options, struct eplb_error *error)
{
    char source[EPLB_SOURCE_TEXT];
    const char *list = options->node_of_rank;
    eplb_source_text(eplb_options_source(options, "node_of_rank"), source);
    EPLB_FAIL(EPLB_INVALID,
              "option node_of_rank takes a node's number for each of the %" PRId32
              " ranks, separated by commas, or one number above 0, the ranks of a node, all below 10^7; not "
              "\"%s\" (%s)",
              options->ep_size, eplb_quote(list, strlen(list)).text, source);
}

enum eplb_status eplb_nodes_read(const struct eplb_options *options, int32_t **node_of_rank,
                                 struct eplb_error *error)
{
    const char *text = options->node_of_rank;
    int32_t ranks = options->ep_size;
    int32_t count = 0;
    int32_t *nodes;
    *node_of_rank = NULL;
    if (*text == '\0')
        return EPLB_OK;
    nodes = *node_of_rank = calloc((size_t)ranks, sizeof *nodes);
    if (nodes == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the nodes of %" PRId32 " ranks", ranks);
    while (*text != '\0') {
        int64_t number = next_number(&text);
        if (number < 0 || count == ranks)
            return refuse_nodes(options, error);
        nodes[count++] = (int32_t)number;
    }
    int32_t per_node = nodes[0];
    if (count != ranks && (count != 1 || per_node == 0))
        return refuse_nodes(options, error);
    for (int32_t rank = 0; count == 1 && per_node > 0 && rank < ranks; rank++)
        nodes[rank] = rank / per_node;
    return EPLB_OK;
}
