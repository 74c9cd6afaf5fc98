/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include "cli/cli.h"

#include <string.h>

#include "base/error.h"
#include "base/nearest.h"

static const struct eplb_subcommand *const subcommands[] = {&eplb_subcommand_plan, &eplb_subcommand_run,
                                                            &eplb_subcommand_replay, &eplb_subcommand_shm};

enum { NUM_SUBCOMMANDS = sizeof subcommands / sizeof subcommands[0] };

static const struct eplb_command_doc top_doc = {
    .command = EPLB_COMMAND_TOP,
    .summary = "expert-parallel load balancing for MoE inference",
    .usage = "eplb COMMAND [--option[=value]]...\n"
             "eplb help [COMMAND]",
    .description =
        "Keeps the EP ranks of a Mixture-of-Experts model evenly loaded: counts the tokens of every physical "
        "expert slot, plans redundant replicas of hot experts, and says what a plan brings before it is "
        "used.\n"
        "\n"
        "Commands: plan computes placements for a recorded load; run serves a MoE model with an engine and "
        "one process per EP rank, and rebalances it meanwhile; replay scores plans on the load that came "
        "after them, or repeats a recorded run; shm shows the shared memory of runs and removes what dead "
        "ones have left.\n"
        "\n"
        "Exit codes: 0 ok; 1 internal or input/output error; 2 wrong input or usage; 3 verification failed; "
        "4 a rank died; 5 a rank is silent, or a process that holds the lock of the shared memory is "
        "stopped; 6 shared memory of another layout; 7 instance name in use; 130, 143 ended by a signal.",
    .examples = "eplb plan --load=load.json --ep_size=8\n"
                "eplb run --enable_eplb --ep_size=4 --eplb_update_interval_steps=100\n"
                "eplb replay --load=load.csv --ep_size=8\n"
                "eplb shm ls\n"
                "eplb plan --help\n",
};

static const struct eplb_subcommand *find_subcommand(const char *name)
{
    for (size_t i = 0; i < NUM_SUBCOMMANDS; i++)
        if (strcmp(subcommands[i]->name, name) == 0)
            return subcommands[i];
    return NULL;
}

static int unknown_subcommand(const char *name)
{
    const char *names[NUM_SUBCOMMANDS];
    for (size_t i = 0; i < NUM_SUBCOMMANDS; i++)
        names[i] = subcommands[i]->name;
    char shown[EPLB_SHOWN_TEXT];
    eplb_text_shown(shown, name);
    struct eplb_error error;
    eplb_fail(&error, EPLB_USAGE, "unknown command '%s'; the nearest known is '%s' (see eplb --help)", shown,
              names[eplb_nearest(name, names, NUM_SUBCOMMANDS)]);
    return eplb_cli_fail(&error);
}

static int finish(void)
{
    struct eplb_error error;
    return eplb_cli_flush(&error) == EPLB_OK ? 0 : eplb_cli_fail(&error);
}

static int show_help(FILE *file, const struct eplb_command_doc *doc)
{
    struct eplb_text_sink pages = eplb_cli_pages(file);
    eplb_help_write(doc, &pages);
    return finish();
}

static int help_command(int argc, char **argv)
{
    if (argc == 0)
        return show_help(stdout, &top_doc);
    if (argc > 1) {
        struct eplb_error error;
        char shown[EPLB_SHOWN_TEXT];
        eplb_text_shown(shown, argv[1]);
        eplb_fail(&error, EPLB_USAGE, "eplb help takes one command, and then came '%s'", shown);
        return eplb_cli_fail(&error);
    }
    const struct eplb_subcommand *subcommand = find_subcommand(argv[0]);
    return subcommand == NULL ? unknown_subcommand(argv[0]) : show_help(stdout, subcommand->doc);
}

/** `eplb` without a subcommand: its own few options. */
static int top_command(int argc, char **argv)
{
    struct eplb_config config;
    struct eplb_error error;
    eplb_config_init(&config, EPLB_COMMAND_TOP);
    if (eplb_config_parse(&config, argc, argv, &error) != EPLB_OK)
        return eplb_cli_fail(&error);
    if (eplb_cli_page(&config, &top_doc))
        return finish();
    show_help(stderr, &top_doc);
    return eplb_status_exit_code(EPLB_USAGE);
}

int main(int argc, char **argv)
{
    if (argc < 2 || argv[1][0] == '-')
        return top_command(argc < 2 ? 0 : argc - 1, argv + 1);
    if (strcmp(argv[1], "help") == 0)
        return help_command(argc - 2, argv + 2);
    /* What eplb run starts; nothing that people call, so no help knows of it. */
    if (strcmp(argv[1], EPLB_CLI_WORKER) == 0)
        return eplb_cli_worker(argc - 2, argv + 2);
    const struct eplb_subcommand *subcommand = find_subcommand(argv[1]);
    if (subcommand == NULL)
        return unknown_subcommand(argv[1]);
    return subcommand->run(argc - 2, argv + 2);
}
