# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# cmake -DBENCH=<program> -DKEYS=<key>,<key>,... -P check_rows.cmake
#
# Runs a bench with --quick --json and checks that it prints at least one row, that every row has
# exactly the keys, and that every number in it is positive (of very many rows, some are looked at).
string(REPLACE "," ";" expected "${KEYS}")

execute_process(COMMAND ${BENCH} --quick --json OUTPUT_VARIABLE rows ERROR_VARIABLE errors
                RESULT_VARIABLE code)
if(NOT code EQUAL 0 OR NOT errors STREQUAL "")
  message(FATAL_ERROR "${BENCH} ended with ${code} and said: ${errors}")
endif()

string(JSON num_rows LENGTH "${rows}")
if(num_rows EQUAL 0)
  message(FATAL_ERROR "${BENCH} printed no row")
endif()
math(EXPR last_row "${num_rows} - 1")
# Of very many rows, some: what one bench prints has the same keys in all.
math(EXPR stride "${num_rows} / 64 + 1")
foreach(row RANGE 0 ${last_row} ${stride})
  # Taken out of the list once: every look into the list reads all of it.
  string(JSON one GET "${rows}" ${row})
  string(JSON num_keys LENGTH "${one}")
  list(LENGTH expected num_expected)
  if(NOT num_keys EQUAL num_expected)
    message(FATAL_ERROR "row ${row} has ${num_keys} keys, not ${num_expected}:\n${rows}")
  endif()
  foreach(key IN LISTS expected)
    string(JSON type TYPE "${one}" ${key})
    string(JSON value GET "${one}" ${key})
    if(type STREQUAL "NUMBER" AND NOT value GREATER 0)
      message(FATAL_ERROR "row ${row}: '${key}' is ${value}, which is not positive")
    elseif(NOT type STREQUAL "NUMBER" AND NOT type STREQUAL "STRING")
      message(FATAL_ERROR "row ${row}: '${key}' is a ${type}")
    endif()
  endforeach()
endforeach()
message(STATUS "${num_rows} rows")
