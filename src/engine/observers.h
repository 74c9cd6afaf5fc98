/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Who sees what the manager of a run is told and does: the outcomes of its plans, and the recording of its
 * events, if there is one.
 */
#ifndef ENGINE_OBSERVERS_H
#define ENGINE_OBSERVERS_H

#include "engine/outcomes.h"

struct eplb_observers;

/**
 * @param initial    [num_layers][num_slots]
 * @param record     prefix of a recording, whose events go to PREFIX.events; NULL: none
 * @param log        outlives the observers; may be NULL
 * @return EPLB_OK; as eplb_event_writer_create; EPLB_NO_MEMORY
 */
enum eplb_status eplb_observers_create(const struct eplb_shape *shape, const int32_t *initial,
                                       const char *record, const struct eplb_log_sink *log,
                                       struct eplb_observers **observers, struct eplb_error *error);

/** For eplb_manager_params.observer. */
const struct eplb_manager_observer *eplb_observers_observer(const struct eplb_observers *observers);

/** As eplb_outcomes_next and eplb_outcomes_finish; beside the manager's calls. */
bool eplb_observers_next(struct eplb_observers *observers, struct eplb_outcome *outcome);
void eplb_observers_finish(struct eplb_observers *observers);

/**
 * Ends the recording and frees everything, whatever happens. After the manager's destruction; NULL is
 * allowed.
 *
 * @return EPLB_OK; why the recording is not whole, if it is not
 */
enum eplb_status eplb_observers_close(struct eplb_observers *observers, struct eplb_error *error);

#endif
