# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
# libeplb: everything from base to policy. libc, libm and pthread only; the exported names are
# listed in libeplb.map, everything else is hidden.
set(EPLB_LIBRARY_FOLDERS base os config metrics placement load policy)
foreach(folder IN LISTS EPLB_LIBRARY_FOLDERS)
  if(TARGET eplb_${folder})
    list(APPEND eplb_library_objects $<TARGET_OBJECTS:eplb_${folder}>)
  endif()
endforeach()

add_library(eplb_static STATIC ${eplb_library_objects})
set_target_properties(eplb_static PROPERTIES OUTPUT_NAME eplb)
target_link_libraries(eplb_static PUBLIC m pthread)

add_library(eplb_shared SHARED ${eplb_library_objects})
set_target_properties(eplb_shared PROPERTIES OUTPUT_NAME eplb VERSION ${PROJECT_VERSION} SOVERSION 0)
target_link_libraries(eplb_shared PRIVATE eplb_flags m pthread)
target_link_options(eplb_shared PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/libeplb.map
                    $<$<NOT:$<BOOL:${EPLB_SANITIZE}>>:-Wl,--no-undefined>)
set_target_properties(eplb_shared PROPERTIES LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/libeplb.map)
