# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
# The README shows examples/embed.c as it is, from its first include on.
file(READ ${SOURCE}/examples/embed.c program)
file(READ ${SOURCE}/README.md readme)
string(FIND "${program}" "#include" start)
string(SUBSTRING "${program}" ${start} -1 shown)
string(FIND "${readme}" "```c\n${shown}```\n" found)
if(found EQUAL -1)
  message(FATAL_ERROR "README.md does not show examples/embed.c as it is")
endif()
