# SPDX-License-Identifier: Apache-2.0
# Copyright The eplb authors
#
# cmake -DMAKE_LOAD=<program> -P check_make_load.cmake
#
# Checks exact output of make_load, on success and on refusal.
function(expect code output errors)
  execute_process(COMMAND ${MAKE_LOAD} ${ARGN} OUTPUT_VARIABLE got_output ERROR_VARIABLE got_errors
                  RESULT_VARIABLE got_code)
  if(NOT got_code EQUAL code OR NOT got_output STREQUAL output OR NOT got_errors STREQUAL errors)
    message(FATAL_ERROR "make_load ${ARGN}\nended with ${got_code}, not ${code}, and printed\n"
                        "${got_output}${got_errors}instead of\n${output}${errors}")
  endif()
endfunction()

function(expect_refusal argument sentence)
  expect(2 "" "make_load: ${sentence}\n" ${argument})
endfunction()

function(expect_hash hash)
  execute_process(COMMAND ${MAKE_LOAD} ${ARGN} OUTPUT_VARIABLE output RESULT_VARIABLE code)
  string(SHA256 got "${output}")
  if(NOT code EQUAL 0 OR NOT got STREQUAL hash)
    message(FATAL_ERROR "make_load ${ARGN}\nended with ${code} and printed bytes of SHA-256\n"
                        "${got}, not\n${hash}")
  endif()
endfunction()

# The hottest expert would get 131 of 200 rows, were it not cut at the 100 tokens.
set(small [==[
{"format":"eplb-load-1","num_experts":8,"top_k":2,"steps":[
{"label":"step 0","load":[
[21,8,12,4,100,3,6,46],
[100,47,21,4,7,11,4,6]]},
{"label":"step 1","load":[
[25,5,2,8,85,3,3,69],
[100,20,27,2,19,19,3,10]]}]}
]==])
expect(0 "${small}" ""
       --experts=8 --layers=2 --steps=2 --top_k=2 --tokens=100 --dist=zipf:2 --drift=0.5 --seed=1)
expect_hash(1820f844ff0ccee94877475deaf9720def09ef325a1304ac872b1f03602086b3)
expect_hash(a5d99b04606d21482082065eea4a7c8d3a4839437e22c78da7aead91bfc14b66 --dist=zipf:2 --steps=3 --seed=7)

expect_refusal(--experts=0 "--experts is '0'; allowed is an integer from 1 to 65536")
expect_refusal(--layers=8x "--layers is '8x'; allowed is an integer from 1 to 65536")
expect_refusal(--seed=9223372036854775808
               "--seed is '9223372036854775808'; allowed is an integer from 0 to 9223372036854775807")
expect_refusal(--top_k=300 "--top_k is 300 with --experts=256; a token cannot choose an expert twice")
expect_refusal(--dist=zip:1 "--dist is 'zip:1'; allowed is zipf:S or lognormal:S")
expect_refusal(--dist=zipf:nan "--dist is 'zipf:nan'; allowed for S is a number from 0 to 8, such as 1.1")
expect_refusal(--drift=9 "--drift is '9'; allowed for S is a number from 0 to 8, such as 1.1")
expect_refusal(--expert=4 "'expert' is no option of make_load; options are written --name=value, the nearest \
is --experts")
