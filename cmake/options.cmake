# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
# Warnings and code generation that every target shares.
add_library(eplb_flags INTERFACE)
target_compile_definitions(eplb_flags INTERFACE _GNU_SOURCE)
target_compile_options(eplb_flags INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef
  -Wwrite-strings -Wpointer-arith -Wcast-qual -Wformat=2 $<$<BOOL:${EPLB_WERROR}>:-Werror>
  -fvisibility=hidden -fno-strict-overflow -ffp-contract=off -fno-common)
if(EPLB_SANITIZE)
  target_compile_options(eplb_flags INTERFACE
    -fsanitize=${EPLB_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(eplb_flags INTERFACE -fsanitize=${EPLB_SANITIZE})
endif()
