# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
# libeplb: everything from base to executor. libc, libm and pthread only; exported is what EPLB_API
# marks, everything else is hidden.
set(EPLB_LIBRARY_FOLDERS base os shm config metrics placement routing wire load policy policy_shell transport
                         transport_threads transport_shm channel migrate manager manager_shell executor
                         executor_shell)
foreach(folder IN LISTS EPLB_LIBRARY_FOLDERS)
  list(APPEND eplb_library_objects $<TARGET_OBJECTS:eplb_${folder}>)
  list(APPEND eplb_planted_objects $<TARGET_OBJECTS:eplb_${folder}_planted>)
endforeach()

add_library(eplb_static STATIC ${eplb_library_objects})
set_target_properties(eplb_static PROPERTIES OUTPUT_NAME eplb)
target_link_libraries(eplb_static PUBLIC m pthread)

# For tests: the same, with fault hooks and planted bugs compiled in.
add_library(eplb_static_planted STATIC EXCLUDE_FROM_ALL ${eplb_planted_objects})
target_link_libraries(eplb_static_planted PUBLIC m pthread)

add_library(eplb_shared SHARED ${eplb_library_objects})
set_target_properties(eplb_shared PROPERTIES OUTPUT_NAME eplb VERSION ${PROJECT_VERSION} SOVERSION 0
                      LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/libeplb.map)
target_link_libraries(eplb_shared PRIVATE eplb_flags m pthread)
target_link_options(eplb_shared PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/libeplb.map)
if(NOT EPLB_SANITIZE)
  target_link_options(eplb_shared PRIVATE -Wl,--no-undefined)
endif()
