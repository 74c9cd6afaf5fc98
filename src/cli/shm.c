/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * `eplb shm`: what lies in shared memory, and the removal of what the dead have left.
 */
#include "cli/shm.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/cli.h"
#include "os/terminal.h"
#include "shm/name.h"

static const struct eplb_command_doc shm_doc = {
    .command = EPLB_COMMAND_SHM,
    .summary = "show the shared memory of runs, and remove what dead ones have left",
    .usage = "eplb shm ls [--json] [--instance_name=NAME]\n"
             "eplb shm inspect NAME [--json]\n"
             "eplb shm clean [--instance_name=NAME]",
    .description =
        "A run keeps its process group and its forward channels in segments of shared memory, files of "
        "/dev/shm named eplb.<uid>.<instance>.<part>. A segment is live while its owner holds the lock on "
        "it, which ends with the owner's process; else it is dead, and the next run of that instance name "
        "replaces it. One of another layout, or damaged, is foreign: nothing here ever changes it.\n"
        "\n"
        "ls lists the segments of this user. inspect shows what one holds, and does not disturb a living "
        "one. clean removes the dead ones; live and foreign ones are named and left. ls and clean look at "
        "the segments of every instance unless --instance_name is given.\n"
        "\n"
        "Exit codes: 0 ok, also when there is nothing, or something that had to be left; 1 input/output "
        "error; 2 wrong usage, or no such segment; 5 the process that holds the generation lock is "
        "stopped; 6 what is inspected is foreign, or so is the lock's file.",
    .examples = "eplb shm ls\n"
                "eplb shm inspect demo.rank0\n"
                "eplb shm clean --instance_name=demo\n",
};

static const struct eplb_command_doc ls_doc = {
    .command = EPLB_COMMAND_SHM_LS,
    .summary = "list this user's segments of shared memory",
    .usage = "eplb shm ls [--json] [--instance_name=NAME]",
    .description =
        "One line per segment: instance and part (its name), what it is, whether it is live, dead or "
        "foreign, "
        "the generation of its run, its size in bytes, and the process that owns it. Why a segment is "
        "foreign "
        "stands on standard error. Without --instance_name the segments of every instance are listed.",
    .examples = "eplb shm ls\n"
                "eplb shm ls --json\n",
};

static const struct eplb_command_doc inspect_doc = {
    .command = EPLB_COMMAND_SHM_INSPECT,
    .summary = "show what a segment of shared memory holds",
    .usage = "eplb shm inspect NAME [--json]",
    .description =
        "NAME is a path, or the name of a file in the directory, where eplb.<uid>. may be left out. Shown "
        "are "
        "the header with its offsets, the lock, the record of the generation lock, and what the payload "
        "says: "
        "of a group its ranks and the decision record, of a channel its sizes and counters. The numbers of a "
        "live one may change while they are read; nothing is locked or written.\n"
        "\n"
        "A foreign one is shown as far as it has a header, with what was found and what was expected on "
        "standard error, and exit code 6.",
    .examples = "eplb shm inspect demo.group\n"
                "eplb shm inspect /dev/shm/eplb.1000.demo.rank0 --json\n",
};

static const struct eplb_command_doc clean_doc = {
    .command = EPLB_COMMAND_SHM_CLEAN,
    .summary = "remove this user's segments whose owners are dead",
    .usage = "eplb shm clean [--instance_name=NAME]",
    .description =
        "Removes the dead segments, under the generation lock, and prints the path of each that it removed. "
        "Live ones are left, and so are foreign ones, which are named with how to remove them by hand; "
        "neither is an error. Without --instance_name the segments of every instance are looked at. A run "
        "replaces the dead ones of its own name by itself: this is for names that are not used again.",
    .examples = "eplb shm clean\n"
                "eplb shm clean --instance_name=demo\n",
};

const char *eplb_shm_kind(uint32_t kind)
{
    return kind == EPLB_SEGMENT_GROUP ? "group" : kind == EPLB_SEGMENT_CHANNEL ? "channel" : "-";
}

const char *eplb_shm_state(enum eplb_segment_state state)
{
    return state == EPLB_SEGMENT_LIVE ? "live" : state == EPLB_SEGMENT_DEAD ? "dead" : "foreign";
}

const char *eplb_shm_seen(const struct eplb_process_id *owner)
{
    int seen = eplb_process_seen(owner);
    return seen > 0 ? "alive" : seen == 0 ? "gone" : "not to be told";
}

/** The segments that the command is about; freed with free(). */
struct found {
    struct eplb_segment_info *infos;
    size_t count;
};

static enum eplb_status find(const struct eplb_config *config, struct found *found, struct eplb_error *error)
{
    *found = (struct found){NULL, 0};
    EPLB_TRY(eplb_segment_list(config->own.shm_directory, &found->infos, &found->count, error));
    if (!eplb_options_was_given(&config->options, "instance_name"))
        return EPLB_OK;
    size_t kept = 0;
    for (size_t i = 0; i < found->count; i++)
        if (strcmp(found->infos[i].instance, config->options.instance_name) == 0)
            found->infos[kept++] = found->infos[i];
    found->count = kept;
    return EPLB_OK;
}

static void say_nothing_there(const struct eplb_config *config, const char *what)
{
    char directory[EPLB_CLI_SHOWN];
    bool one = eplb_options_was_given(&config->options, "instance_name");
    eplb_cli_note("no %s of this user%s%s in %s", what, one ? " and instance " : "",
                  one ? config->options.instance_name : "",
                  eplb_cli_shown(directory, config->own.shm_directory));
}

/* ---- ls ---- */

enum { INSTANCE, PART, KIND, STATE, GENERATION, BYTES, OWNER, NAME, NUM_CELLS, CELL_BYTES = EPLB_CLI_SHOWN };

struct row {
    char cells[NUM_CELLS][CELL_BYTES];
};

static const char *const headings[NUM_CELLS] = {"instance",   "part",  "kind",  "state",
                                                "generation", "bytes", "owner", "name"};

static void fill_row(const struct eplb_segment_info *info, struct row *row)
{
    bool foreign = info->state == EPLB_SEGMENT_FOREIGN;
    snprintf(row->cells[INSTANCE], CELL_BYTES, "%s", info->instance[0] == '\0' ? "-" : info->instance);
    snprintf(row->cells[PART], CELL_BYTES, "%s", info->part[0] == '\0' ? "-" : info->part);
    snprintf(row->cells[KIND], CELL_BYTES, "%s", foreign ? "-" : eplb_shm_kind(info->header.kind));
    snprintf(row->cells[STATE], CELL_BYTES, "%s", eplb_shm_state(info->state));
    snprintf(row->cells[GENERATION], CELL_BYTES, "-");
    snprintf(row->cells[BYTES], CELL_BYTES, "%" PRIu64, info->file_bytes);
    snprintf(row->cells[OWNER], CELL_BYTES, "-");
    eplb_cli_shown(row->cells[NAME], eplb_shm_base_name(info->path));
    if (foreign)
        return;
    snprintf(row->cells[GENERATION], CELL_BYTES, "%" PRIu64, info->header.generation);
    snprintf(row->cells[OWNER], CELL_BYTES, "%" PRId64 " (%s)", info->owner.pid, eplb_shm_seen(&info->owner));
}

static bool is_number(int cell)
{
    return cell == GENERATION || cell == BYTES;
}

static void print_cells(const char *const cells[NUM_CELLS], const int widths[NUM_CELLS], const char *colour)
{
    for (int i = 0; i < NUM_CELLS; i++) {
        bool coloured = i == STATE && colour != NULL;
        int width = i + 1 == NUM_CELLS ? 0 : is_number(i) ? widths[i] : -widths[i];
        printf("%s%s%*s%s", i == 0 ? "" : "  ", coloured ? colour : "", width, cells[i],
               coloured ? "\033[0m" : "");
    }
    putchar('\n');
}

static const char *colour_of(enum eplb_segment_state state)
{
    return state == EPLB_SEGMENT_LIVE ? "\033[32m" : state == EPLB_SEGMENT_DEAD ? "\033[33m" : "\033[31m";
}

static void print_table(const struct found *found)
{
    struct row row;
    const char *cells[NUM_CELLS];
    int widths[NUM_CELLS];
    for (int i = 0; i < NUM_CELLS; i++) {
        widths[i] = (int)strlen(headings[i]);
        cells[i] = row.cells[i];
    }
    for (size_t i = 0; i < found->count; i++) {
        fill_row(&found->infos[i], &row);
        for (int j = 0; j < NUM_CELLS; j++)
            if ((int)strlen(row.cells[j]) > widths[j])
                widths[j] = (int)strlen(row.cells[j]);
    }
    print_cells(headings, widths, NULL);
    bool coloured = eplb_terminal_colours(fileno(stdout)) != 0;
    for (size_t i = 0; i < found->count; i++) {
        fill_row(&found->infos[i], &row);
        print_cells(cells, widths, coloured ? colour_of(found->infos[i].state) : NULL);
    }
}

static enum eplb_status print_list(const struct found *found, const char *directory, struct eplb_error *error)
{
    struct eplb_report *report = eplb_report_new(stdout, true);
    if (report == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the list");
    eplb_report_text(report, "format", EPLB_REPORT_NOWHERE, "eplb-shm-list-1");
    eplb_report_text(report, "directory", EPLB_REPORT_NOWHERE, directory);
    eplb_report_list(report, "segments");
    for (size_t i = 0; i < found->count; i++) {
        const struct eplb_segment_info *info = &found->infos[i];
        eplb_report_member(report, EPLB_REPORT_NOWHERE);
        eplb_report_text(report, "path", EPLB_REPORT_NOWHERE, info->path);
        eplb_report_text(report, "instance", EPLB_REPORT_NOWHERE, info->instance);
        eplb_report_text(report, "part", EPLB_REPORT_NOWHERE, info->part);
        eplb_report_text(report, "state", EPLB_REPORT_NOWHERE, eplb_shm_state(info->state));
        eplb_report_number(report, "file_bytes", EPLB_REPORT_NOWHERE, info->file_bytes);
        if (info->state == EPLB_SEGMENT_FOREIGN) {
            eplb_report_text(report, "why", EPLB_REPORT_NOWHERE, info->why);
        } else {
            eplb_report_text(report, "kind", EPLB_REPORT_NOWHERE, eplb_shm_kind(info->header.kind));
            eplb_report_number(report, "generation", EPLB_REPORT_NOWHERE, info->header.generation);
            eplb_report_number(report, "owner_pid", EPLB_REPORT_NOWHERE, info->header.owner_pid);
            eplb_report_text(report, "owner_seen", EPLB_REPORT_NOWHERE, eplb_shm_seen(&info->owner));
        }
        eplb_report_end(report);
    }
    eplb_report_end(report);
    return eplb_report_finish(report, error);
}

static enum eplb_status list(const struct eplb_config *config, struct eplb_error *error)
{
    struct found found;
    EPLB_TRY(find(config, &found, error));
    enum eplb_status status = EPLB_OK;
    if (config->own.json)
        status = print_list(&found, config->own.shm_directory, error);
    else if (found.count > 0)
        print_table(&found);
    /* The lines first, also where both go to one file. */
    fflush(stdout);
    if (found.count == 0)
        say_nothing_there(config, "segment");
    for (size_t i = 0; i < found.count; i++)
        if (found.infos[i].state == EPLB_SEGMENT_FOREIGN) {
            char why[EPLB_CLI_SHOWN];
            eplb_cli_note("%s", eplb_cli_shown(why, found.infos[i].why));
        }
    free(found.infos);
    return status;
}

/* ---- clean ---- */

static void say_left(const struct eplb_segment_info *info)
{
    char path[EPLB_CLI_SHOWN];
    char why[EPLB_CLI_SHOWN];
    eplb_cli_shown(path, info->path);
    if (info->state == EPLB_SEGMENT_LIVE)
        eplb_cli_note("left: %s is live, process %" PRId64 " (%s) owns it", path, info->owner.pid,
                      eplb_shm_seen(&info->owner));
    else if (info->state == EPLB_SEGMENT_FOREIGN)
        eplb_cli_note("left: %s", eplb_cli_shown(why, info->why));
    else
        eplb_cli_note("left: %s has changed hands just now", path);
}

static enum eplb_status remove_dead(const struct found *found, size_t *removed, struct eplb_error *error)
{
    for (size_t i = 0; i < found->count; i++) {
        const struct eplb_segment_info *info = &found->infos[i];
        bool gone = false;
        if (info->state == EPLB_SEGMENT_DEAD)
            EPLB_TRY(eplb_segment_remove_dead(info->path, &gone, error));
        if (!gone) {
            /* What was removed first, also where both go to one file. */
            fflush(stdout);
            say_left(info);
            continue;
        }
        char path[EPLB_CLI_SHOWN];
        printf("%s\n", eplb_cli_shown(path, info->path));
        ++*removed;
    }
    return EPLB_OK;
}

static enum eplb_status clean(const struct eplb_config *config, struct eplb_error *error)
{
    struct found found;
    EPLB_TRY(find(config, &found, error));
    size_t removed = 0;
    enum eplb_status status = remove_dead(&found, &removed, error);
    free(found.infos);
    fflush(stdout);
    EPLB_TRY(status);
    if (removed == 0)
        say_nothing_there(config, "dead segment");
    else
        eplb_cli_note("removed %zu dead segment%s", removed, removed == 1 ? "" : "s");
    return EPLB_OK;
}

/* ---- the command ---- */

static enum eplb_status inspect(const struct eplb_config *config, struct eplb_error *error)
{
    if (config->operand == NULL)
        EPLB_FAIL(EPLB_USAGE, "eplb shm inspect needs the NAME of a segment (see eplb shm ls)");
    return eplb_shm_inspect(config->own.shm_directory, config->operand, config->own.json, error);
}

/** A word after `eplb shm`. */
struct verb {
    const char *name;
    const struct eplb_command_doc *doc;
    enum eplb_status (*run)(const struct eplb_config *config, struct eplb_error *error);
};

static const struct verb verbs[] = {
    {"ls", &ls_doc, list}, {"inspect", &inspect_doc, inspect}, {"clean", &clean_doc, clean}};

enum { NUM_VERBS = sizeof verbs / sizeof verbs[0] };

static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; i < NUM_VERBS; i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

static enum eplb_status refuse_verb(const char *name, struct eplb_error *error)
{
    const char *names[NUM_VERBS];
    for (size_t i = 0; i < NUM_VERBS; i++)
        names[i] = verbs[i].name;
    char shown[EPLB_SHOWN_TEXT];
    eplb_text_shown(shown, name);
    EPLB_FAIL(EPLB_USAGE, "unknown command 'shm %s'; the nearest known is 'shm %s' (see eplb shm --help)",
              shown, names[eplb_nearest(name, names, NUM_VERBS)]);
}

/** `eplb shm` without a verb: its pages, else how to use it, on standard error. */
static int without_verb(int argc, char **argv)
{
    struct eplb_config config;
    struct eplb_error error = {0};
    eplb_config_init(&config, EPLB_COMMAND_SHM);
    enum eplb_status status = eplb_config_parse(&config, argc, argv, &error);
    if (status == EPLB_OK && eplb_cli_page(&config, &shm_doc)) {
        status = eplb_cli_flush(&error);
    } else if (status == EPLB_OK) {
        struct eplb_text_sink pages = eplb_cli_pages(stderr);
        eplb_help_write(&shm_doc, &pages);
        return eplb_status_exit_code(EPLB_USAGE);
    }
    return status == EPLB_OK ? 0 : eplb_cli_fail(&error);
}

static enum eplb_status run_verb(int argc, char **argv, struct eplb_error *error)
{
    const struct verb *verb = find_verb(argv[0]);
    if (verb == NULL)
        return refuse_verb(argv[0], error);
    struct eplb_config config;
    eplb_config_init(&config, verb->doc->command);
    EPLB_TRY(eplb_config_parse(&config, argc - 1, argv + 1, error));
    if (!eplb_cli_page(&config, verb->doc))
        EPLB_TRY(verb->run(&config, error));
    return eplb_cli_flush(error);
}

static int shm_command(int argc, char **argv)
{
    if (argc == 0 || argv[0][0] == '-')
        return without_verb(argc, argv);
    struct eplb_error error = {0};
    return run_verb(argc, argv, &error) == EPLB_OK ? 0 : eplb_cli_fail(&error);
}

const struct eplb_subcommand eplb_subcommand_shm = {.name = "shm", .doc = &shm_doc, .run = shm_command};
