# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
# What `make install` puts where, and the manual pages, which the command writes from its option table.
include(GNUInstallDirs)

set(EPLB_MAN_PAGES ${CMAKE_BINARY_DIR}/eplb.1 ${CMAKE_BINARY_DIR}/eplb-plan.1 ${CMAKE_BINARY_DIR}/eplb-run.1
                   ${CMAKE_BINARY_DIR}/eplb-replay.1 ${CMAKE_BINARY_DIR}/eplb-shm.1)
add_custom_command(OUTPUT ${EPLB_MAN_PAGES}
  COMMAND eplb --man > ${CMAKE_BINARY_DIR}/eplb.1
  COMMAND eplb plan --man > ${CMAKE_BINARY_DIR}/eplb-plan.1
  COMMAND eplb run --man > ${CMAKE_BINARY_DIR}/eplb-run.1
  COMMAND eplb replay --man > ${CMAKE_BINARY_DIR}/eplb-replay.1
  COMMAND eplb shm --man > ${CMAKE_BINARY_DIR}/eplb-shm.1
  DEPENDS eplb VERBATIM)
add_custom_target(man ALL DEPENDS ${EPLB_MAN_PAGES})

configure_file(${CMAKE_SOURCE_DIR}/cmake/eplb.pc.in ${CMAKE_BINARY_DIR}/eplb.pc @ONLY)

install(TARGETS eplb RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS eplb_static eplb_shared
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/eplb DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${EPLB_MAN_PAGES} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${CMAKE_BINARY_DIR}/eplb.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
