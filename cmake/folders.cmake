# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# eplb_folder(<name> SOURCES <file>... [DIRECTORY <folder>] [BELOW <name>...] [HEADERS <public header>...]
#             [PLANTED <file>...])
#
# Makes the object library eplb_<name> from the sources of src/<name>, or of src/<folder> where a
# shell with more rights stands beside a pure core. Its include path is one directory of links,
# build/views/<name>, that shows only what the folder may include: its own headers, those of the
# folders named after BELOW and of everything below these, and the public headers that belong to any
# of them. A forbidden include therefore does not compile, and a cycle is refused, because BELOW takes
# only folders that exist already.
#
# eplb_<name>_planted is the same with test hooks and planted bugs compiled in, and with the sources
# after PLANTED; only tests link it.
function(_eplb_objects target view test_build)
  add_library(${target} OBJECT ${ARGN})
  target_link_libraries(${target} PRIVATE eplb_flags)
  target_include_directories(${target} PRIVATE ${view})
  target_compile_definitions(${target} PRIVATE EPLB_TEST_BUILD=$<BOOL:${test_build}>)
endfunction()

function(eplb_folder name)
  cmake_parse_arguments(ARG "" "DIRECTORY" "SOURCES;BELOW;HEADERS;PLANTED" ${ARGN})
  if(NOT ARG_DIRECTORY)
    set(ARG_DIRECTORY ${name})
  endif()
  set(visible ${ARG_DIRECTORY})
  set(headers ${ARG_HEADERS})
  foreach(below IN LISTS ARG_BELOW)
    if(NOT TARGET eplb_${below})
      message(FATAL_ERROR "folder '${name}' may not include '${below}': it is not below it on the road "
                          "(see the order of add_subdirectory in CMakeLists.txt)")
    endif()
    get_property(more GLOBAL PROPERTY eplb_visible_${below})
    list(APPEND visible ${more})
    get_property(more GLOBAL PROPERTY eplb_headers_${below})
    list(APPEND headers ${more})
  endforeach()
  list(REMOVE_DUPLICATES visible)
  list(REMOVE_DUPLICATES headers)
  set_property(GLOBAL PROPERTY eplb_visible_${name} "${visible}")
  set_property(GLOBAL PROPERTY eplb_headers_${name} "${headers}")
  set_property(GLOBAL APPEND PROPERTY eplb_all_headers ${ARG_HEADERS})

  set(view ${CMAKE_BINARY_DIR}/views/${name})
  file(REMOVE_RECURSE ${view})
  file(MAKE_DIRECTORY ${view}/eplb)
  foreach(folder IN LISTS visible)
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/${folder} ${view}/${folder} SYMBOLIC)
  endforeach()
  foreach(header IN LISTS headers)
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/include/eplb/${header} ${view}/eplb/${header} SYMBOLIC)
  endforeach()

  if(EPLB_TEST_BUILD)
    _eplb_objects(eplb_${name} ${view} ON ${ARG_SOURCES} ${ARG_PLANTED})
  else()
    _eplb_objects(eplb_${name} ${view} OFF ${ARG_SOURCES})
  endif()
  _eplb_objects(eplb_${name}_planted ${view} ON ${ARG_SOURCES} ${ARG_PLANTED})
  set_target_properties(eplb_${name}_planted PROPERTIES EXCLUDE_FROM_ALL ON)
endfunction()
