/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/shm.h"
#include "shm/lock.h"
#include "shm/name.h"

/** How often a segment may be replaced between two looks at it. */
enum { MAX_LOOKS = 10 };

/* ---- which file ---- */

/** Whether something has the path; failures but that are the caller's to forward. */
static enum eplb_status is_there(const char *path, bool *there, struct eplb_error *error)
{
    struct eplb_segment_info *info = malloc(sizeof *info);
    if (info == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory to look at %s", path);
    enum eplb_status status = eplb_segment_look(path, info, error);
    free(info);
    *there = status == EPLB_OK;
    return status == EPLB_INVALID ? EPLB_OK : status;
}

static bool is_lock(const char *path, const char *lock_path)
{
    return strcmp(eplb_shm_base_name(path), eplb_shm_base_name(lock_path)) == 0;
}

static enum eplb_status too_long(const char *operand, struct eplb_error *error)
{
    EPLB_FAIL(EPLB_INVALID, "the name of a segment is too long: %.64s...", operand);
}

/**
 * A path, which must have a name of this user's: of anything else nothing is to be said, least of all
 * how to remove it.
 */
static enum eplb_status resolve_path(const char *operand, const char *lock_path, char path[EPLB_SEGMENT_PATH],
                                     struct eplb_error *error)
{
    bool there;
    if (snprintf(path, EPLB_SEGMENT_PATH, "%s", operand) >= EPLB_SEGMENT_PATH)
        return too_long(operand, error);
    const char *lock_name = eplb_shm_base_name(lock_path);
    if (!eplb_shm_is_ours(eplb_shm_base_name(path)) && !is_lock(path, lock_path))
        EPLB_FAIL(EPLB_INVALID, "%s is no name of this user's shared memory; those begin with %.*s", path,
                  (int)(strlen(lock_name) - strlen("lock")), lock_name);
    EPLB_TRY(is_there(path, &there, error));
    if (!there)
        EPLB_FAIL(EPLB_INVALID, "there is no segment %s", path);
    return EPLB_OK;
}

/** A name in the directory, whole or without the start that all names of this user have. */
static enum eplb_status resolve_name(const char *directory, const char *operand, const char *lock_path,
                                     char path[EPLB_SEGMENT_PATH], struct eplb_error *error)
{
    char longer[EPLB_SEGMENT_PATH];
    int start = (int)(strlen(lock_path) - strlen("lock"));
    if (snprintf(path, EPLB_SEGMENT_PATH, "%s/%s", directory, operand) >= EPLB_SEGMENT_PATH ||
        snprintf(longer, sizeof longer, "%.*s%s", start, lock_path, operand) >= EPLB_SEGMENT_PATH)
        return too_long(operand, error);
    bool here = false;
    bool there;
    if (eplb_shm_is_ours(operand) || is_lock(path, lock_path))
        EPLB_TRY(is_there(path, &here, error));
    EPLB_TRY(is_there(longer, &there, error));
    if (here && there)
        EPLB_FAIL(EPLB_INVALID, "'%s' may be %s or %s; write one of these paths", operand, path, longer);
    if (!here && !there)
        EPLB_FAIL(EPLB_INVALID, "there is no segment '%s' in %s (see eplb shm ls)", operand, directory);
    if (there)
        memcpy(path, longer, sizeof longer);
    return EPLB_OK;
}

/* ---- what is in it ---- */

/** Offset of a member of the header, whose size is that of the fields before it. */
#define OF(member) ((int64_t)offsetof(struct eplb_segment_header, member))

static void report_header(struct eplb_report *report, const struct eplb_segment_header *header)
{
    char text[64];
    const unsigned char *id = header->owner_boot_id;
    eplb_report_section(report, "header", ", at 0");
    snprintf(text, sizeof text, "0x%016" PRIx64, header->magic);
    eplb_report_text(report, "magic", OF(magic), text);
    eplb_report_number(report, "version", OF(version), header->version);
    eplb_report_number(report, "kind", OF(kind), header->kind);
    eplb_report_number(report, "payload_bytes", OF(payload_bytes), header->payload_bytes);
    eplb_report_number(report, "generation", OF(generation), header->generation);
    eplb_report_number(report, "owner_pid", OF(owner_pid), header->owner_pid);
    eplb_report_number(report, "owner_start_time", OF(owner_start_time), header->owner_start_time);
    eplb_report_number(report, "owner_pid_namespace", OF(owner_pid_namespace), header->owner_pid_namespace);
    snprintf(text, sizeof text, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", id[0],
             id[1], id[2], id[3], id[4], id[5], id[6], id[7], id[8], id[9], id[10], id[11], id[12], id[13],
             id[14], id[15]);
    eplb_report_text(report, "owner_boot_id", OF(owner_boot_id), text);
    eplb_report_end(report);
}

#undef OF

#define OF(member) ((int64_t)offsetof(struct eplb_lock_record, member))

/** The lock file beside a segment, as it stands: who looks does not wait for it. */
static void report_lock(struct eplb_report *report, const char *segment, const char *lock_name)
{
    char path[2 * EPLB_SEGMENT_PATH];
    int directory = (int)(eplb_shm_base_name(segment) - segment);
    snprintf(path, sizeof path, "%.*s%s", directory, segment, lock_name);
    struct eplb_peek peek;
    struct eplb_error error;
    struct eplb_lock_record record;
    eplb_report_section(report, "generation_lock", "");
    eplb_report_text(report, "path", EPLB_REPORT_NOWHERE, path);
    if (eplb_peek_open(path, &peek, &error) != EPLB_OK) {
        eplb_report_text(report, "content", EPLB_REPORT_NOWHERE, error.text);
        eplb_report_end(report);
        return;
    }
    if (peek.file_bytes == EPLB_LOCK_BYTES && eplb_peek_read(&peek, 0, &record, sizeof record)) {
        char text[32];
        snprintf(text, sizeof text, "0x%016" PRIx64, record.magic);
        eplb_report_text(report, "magic", OF(magic), text);
        eplb_report_number(report, "version", OF(version), record.version);
        eplb_report_number(report, "generation", OF(generation), record.generation);
        eplb_report_number(report, "holder_pid", OF(holder_pid), record.holder_pid);
    } else {
        eplb_report_number(report, "file_bytes", EPLB_REPORT_NOWHERE, peek.file_bytes);
    }
    eplb_report_end(report);
    eplb_peek_close(&peek);
}

#undef OF

/** Looks at a segment and opens the same one, which may be replaced between the two. */
static enum eplb_status look_and_open(const char *path, struct eplb_segment_info *info,
                                      struct eplb_peek *peek, struct eplb_error *error)
{
    for (int i = 0; i < MAX_LOOKS; i++) {
        struct eplb_segment_header header;
        EPLB_TRY(eplb_segment_look(path, info, error));
        if (info->state == EPLB_SEGMENT_FOREIGN) {
            peek->descriptor = -1;
            return EPLB_OK;
        }
        EPLB_TRY(eplb_peek_open(path, peek, error));
        if (eplb_peek_read(peek, 0, &header, sizeof header) &&
            memcmp(&header, &info->header, sizeof header) == 0)
            return EPLB_OK;
        eplb_peek_close(peek);
    }
    EPLB_FAIL(EPLB_REFUSED, "%s is replaced faster than it can be looked at", path);
}

static enum eplb_status report_segment(struct eplb_report *report, const struct eplb_segment_info *info,
                                       const struct eplb_peek *peek, const char *lock_name,
                                       struct eplb_error *error)
{
    bool foreign = info->state == EPLB_SEGMENT_FOREIGN;
    eplb_report_text(report, "path", EPLB_REPORT_NOWHERE, info->path);
    eplb_report_text(report, "state", EPLB_REPORT_NOWHERE, eplb_shm_state(info->state));
    eplb_report_number(report, "file_bytes", EPLB_REPORT_NOWHERE, info->file_bytes);
    if (foreign) {
        if (info->file_bytes > 0)
            report_header(report, &info->header);
        EPLB_FAIL(EPLB_LAYOUT, "%s", info->why);
    }
    eplb_report_text(report, "kind", EPLB_REPORT_NOWHERE, eplb_shm_kind(info->header.kind));
    eplb_report_text(report, "owner_lock", EPLB_REPORT_NOWHERE,
                     info->state == EPLB_SEGMENT_LIVE ? "held" : "free");
    eplb_report_text(report, "owner_process", EPLB_REPORT_NOWHERE, eplb_shm_seen(&info->owner));
    report_header(report, &info->header);
    report_lock(report, info->path, lock_name);
    return info->header.kind == EPLB_SEGMENT_GROUP ? eplb_shm_report_group(report, info, peek, error)
                                                   : eplb_shm_report_channel(report, info, peek, error);
}

static enum eplb_status report_path(const char *path, const char *lock_path, struct eplb_report *report,
                                    struct eplb_error *error)
{
    const char *lock_name = eplb_shm_base_name(lock_path);
    if (is_lock(path, lock_path)) {
        report_lock(report, path, lock_name);
        return eplb_shm_lock_check(path, error);
    }
    struct eplb_peek peek;
    struct eplb_segment_info *info = malloc(sizeof *info);
    if (info == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory to look at %s", path);
    enum eplb_status status = look_and_open(path, info, &peek, error);
    if (status == EPLB_OK) {
        status = report_segment(report, info, &peek, lock_name, error);
        if (peek.descriptor >= 0)
            eplb_peek_close(&peek);
    }
    free(info);
    return status;
}

enum eplb_status eplb_shm_inspect(const char *directory, const char *operand, bool json,
                                  struct eplb_error *error)
{
    char path[EPLB_SEGMENT_PATH];
    char lock_path[EPLB_SEGMENT_PATH];
    EPLB_TRY(eplb_shm_lock_path(directory, lock_path, error));
    if (strchr(operand, '/') != NULL)
        EPLB_TRY(resolve_path(operand, lock_path, path, error));
    else
        EPLB_TRY(resolve_name(directory, operand, lock_path, path, error));
    struct eplb_report *report = eplb_report_new(stdout, json);
    if (report == NULL)
        EPLB_FAIL(EPLB_NO_MEMORY, "no memory for the report");
    if (json)
        eplb_report_text(report, "format", EPLB_REPORT_NOWHERE, "eplb-shm-segment-1");
    enum eplb_status status = report_path(path, lock_path, report, error);
    struct eplb_error unwritten;
    if (eplb_report_finish(report, &unwritten) != EPLB_OK && status == EPLB_OK)
        EPLB_FAIL(unwritten.status, "%s", unwritten.text);
    return status;
}
