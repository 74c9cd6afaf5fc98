# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
find_path(CMOCKA_INCLUDE cmocka.h REQUIRED)
find_library(CMOCKA_LIBRARY cmocka REQUIRED)

# eplb_unit_test(<name> SOURCES <file>... [LIBRARIES <target>...] [PLANTED])
#
# A cmocka program that may include every folder of src and the public headers. With PLANTED it
# links the library's second build, in which planted bugs and fault hooks can be switched on.
function(eplb_unit_test name)
  cmake_parse_arguments(ARG "PLANTED" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(test_${name} ${ARG_SOURCES})
  target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include
                             ${CMAKE_SOURCE_DIR}/tests ${CMOCKA_INCLUDE})
  if(ARG_PLANTED)
    target_compile_definitions(test_${name} PRIVATE EPLB_TEST_BUILD=1)
    target_link_libraries(test_${name} PRIVATE eplb_flags ${ARG_LIBRARIES} eplb_static_planted
                          ${CMOCKA_LIBRARY})
  else()
    target_compile_definitions(test_${name} PRIVATE EPLB_TEST_BUILD=$<BOOL:${EPLB_TEST_BUILD}>)
    target_link_libraries(test_${name} PRIVATE eplb_flags ${ARG_LIBRARIES} eplb_static ${CMOCKA_LIBRARY})
  endif()
  add_test(NAME unit_${name} COMMAND test_${name} WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  set_tests_properties(unit_${name} PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
endfunction()
