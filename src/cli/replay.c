/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * `eplb replay`: what was recorded, once more.
 */
#include "cli/replay.h"

#include "base/error.h"
#include "cli/cli.h"
#include "cli/planning.h"

static const struct eplb_command_doc replay_doc = {
    .command = EPLB_COMMAND_REPLAY,
    .summary = "score plans on the load that came after them, or repeat a recorded run",
    .usage = "eplb replay --load=FILE --ep_size=N [--window=N] [--json] [--option[=value]]...\n"
             "eplb replay --events=FILE [--option[=value]]...",
    .description =
        "With --load every step of the recording is a window, or several steps are (see --window). "
        "The policy plans from each window, from the placement that is active then; what passes the "
        "gate becomes active; and the window after it is the judge. The table has a line per window: "
        "the balance of the candidates on the window that they were planned from, and on the next "
        "window the balance of the active placement and of the one at the start, each as peak / mean "
        "of the ranks and mean over the layers that have load there; then how many layers the gate "
        "published, how many slots these changed, and how many of the slots took their expert from "
        "other ranks. The last line has the means over the windows.\n"
        "\n"
        "A plan's balance on its own window says little: what counts is the load that comes after it.\n"
        "\n"
        "The load is what the recording says; how it fell on the slots was not recorded, so every "
        "expert's load counts as split over its replicas as eplb_replica_routing splits it, evenly "
        "with static and local, also where the gate measures.\n"
        "\n"
        "With --events the events that a run recorded go through the manager again, and its decisions "
        "are compared with the recorded ones.\n"
        "\n"
        "Here enable_eplb is true unless it is given. Given as false, there are no redundant slots "
        "and nothing is planned.",
    .examples = "eplb replay --load=load.csv --ep_size=8\n"
                "eplb replay --load=load.csv --ep_size=16 --eplb_policy_kind=greedy --json > score.json\n"
                "eplb replay --load=load.json --ep_size=8 --window=10 --output=last.json\n",
};

static enum eplb_status run(const struct eplb_config *config, struct eplb_error *error)
{
    bool load = config->own.load != NULL;
    bool events = config->own.events != NULL;
    if (!load && !events)
        EPLB_FAIL(EPLB_USAGE,
                  "a recording is missing: --load=FILE, to score plans on the windows after them, "
                  "or --events=FILE, to repeat a run (see eplb replay --help)");
    if (load && events)
        EPLB_FAIL(EPLB_USAGE, "--load and --events are two kinds of recordings: give one of them (see eplb "
                              "replay --help)");
    return load ? eplb_replay_load(config, error) : eplb_replay_events(config, error);
}

static int replay_command(int argc, char **argv)
{
    struct eplb_config config;
    struct eplb_error error = {0};
    enum eplb_status status = eplb_planning_options(&config, EPLB_COMMAND_REPLAY, argc, argv, &error);
    if (status == EPLB_OK)
        status = eplb_planning_page(&config, &replay_doc) ? eplb_cli_flush(&error) : run(&config, &error);
    return status == EPLB_OK ? 0 : eplb_cli_fail(&error);
}

const struct eplb_subcommand eplb_subcommand_replay = {
    .name = "replay", .doc = &replay_doc, .run = replay_command};
