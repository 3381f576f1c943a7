# Looks into executables for what cmake/SkaldHardening.cmake asks of compiler and linker.
#
#   cmake -DREADELF=readelf -DPROGRAMS=PATH;PATH -P tests/install/hardened.cmake
cmake_minimum_required(VERSION 3.25)

# looks(WHAT REGEX TEXT): TEXT has it, or the test fails.
function(looks program what regex text)
    if(NOT text MATCHES "${regex}")
        message(SEND_ERROR "${program} is not hardened: ${what}")
    endif()
endfunction()

if(NOT PROGRAMS)
    message(FATAL_ERROR "no programs to look at")
endif()
foreach(program IN LISTS PROGRAMS)
    execute_process(COMMAND ${READELF} --wide --file-header --dynamic --segments --symbols ${program}
                    OUTPUT_VARIABLE seen COMMAND_ERROR_IS_FATAL ANY)
    looks(${program} "it can't be loaded anywhere (PIE)" "Type: +DYN" "${seen}")
    looks(${program} "its relocations stay writable (relro)" "GNU_RELRO" "${seen}")
    looks(${program} "symbols are bound late (-z now)" "FLAGS_1.*NOW" "${seen}")
    looks(${program} "its stack can be executed" "GNU_STACK[^\n]* RW " "${seen}")
    looks(${program} "no stack protector" "__stack_chk_fail" "${seen}")
    looks(${program} "no checked containers" "__glibcxx_assert_fail" "${seen}")
    looks(${program} "no fortified calls" "__[a-z]+_chk[@ \n]" "${seen}")
endforeach()
