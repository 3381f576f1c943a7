# A build without failpoints has none: each of its files that marks points is compiled once more with those
# lines left out, and the instructions are the same; and the library has no symbol of theirs.
# cmake -DBUILD=<build folder> -DLIBRARY=<libskald.a> -DNM= -DOBJDUMP= -DWORK=<folder> -P same_code.cmake
cmake_minimum_required(VERSION 3.25)
file(READ ${BUILD}/compile_commands.json commands)
string(JSON count LENGTH "${commands}")
math(EXPR last "${count} - 1")
set(looked_at 0)
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})

function(run what)
    execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${BUILD} RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
    if(NOT result STREQUAL "0")
        message(FATAL_ERROR "${what} failed:\n${said}")
    endif()
    set(said "${said}" PARENT_SCOPE)
endfunction()

# The instructions of an object, sorted: in which order the compiler writes functions hangs on what it has read before.
function(instructions_of object out)
    execute_process(COMMAND ${OBJDUMP} -d --no-show-raw-insn --no-addresses ${object}
                    COMMAND grep -v "file format"
                    COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C sort
                    OUTPUT_FILE ${out} RESULTS_VARIABLE results)
    if(NOT results STREQUAL "0;0;0")
        message(FATAL_ERROR "objdump of ${object} failed: ${results}")
    endif()
endfunction()

# The files of the framework that mark points, each with its command: those that are compiled together, too.
set(sources)
foreach(i RANGE ${last})
    string(JSON unit GET "${commands}" ${i} file)
    string(JSON command GET "${commands}" ${i} command)
    set(files ${unit})
    if(unit MATCHES "/Unity/unity_")
        file(STRINGS ${unit} files REGEX "^#include")
        list(TRANSFORM files REPLACE "^#include \"(.*)\"$" "\\1")
    endif()
    foreach(source ${files})
        if(NOT source MATCHES "/framework/src/" OR source IN_LIST sources)
            continue()
        endif()
        file(READ ${source} text)
        if(text MATCHES "\n *SKALD_FAILPOINT")
            list(APPEND sources ${source})
            string(REPLACE "${unit}" "${source}" command_of_${source} "${command}")
        endif()
    endforeach()
endforeach()

foreach(source ${sources})
    set(command "${command_of_${source}}")
    file(READ ${source} text)

    # The lines stay, empty, so that the others keep their numbers.
    string(REGEX REPLACE "\n[^\n]*SKALD_(FAILPOINT|FAILPOINT_IF|FAILPOINT_SOCKET)\\([^\n]*" "\n" text "${text}")
    if(text MATCHES "SKALD_FAILPOINT")
        message(SEND_ERROR "${source}: a failpoint must be one whole line")
    endif()
    get_filename_component(name ${source} NAME)
    file(WRITE ${WORK}/${name} "${text}")
    string(REGEX MATCH " -o ([^ ]+)" object "${command}")
    set(object ${CMAKE_MATCH_1})
    string(REPLACE " -o ${object}" " -o ${WORK}/${name}.with.o" with "${command}")
    string(REPLACE "${source}" "${WORK}/${name}" without "${command}")
    string(REPLACE " -o ${object}" " -o ${WORK}/${name}.without.o" without "${without}")
    separate_arguments(with UNIX_COMMAND "${with}")
    separate_arguments(without UNIX_COMMAND "${without}")
    # Not optimised: an optimiser's choices hang on the number of declarations before them, and here nothing must be left
    # to be optimised away.
    run("compiling ${name}" ${with} -O0 -g0)
    run("compiling ${name}" ${without} -O0 -g0)
    instructions_of(${WORK}/${name}.with.o ${WORK}/${name}.with)
    instructions_of(${WORK}/${name}.without.o ${WORK}/${name}.without)
    execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${WORK}/${name}.with ${WORK}/${name}.without
                    RESULT_VARIABLE differs)
    if(NOT differs STREQUAL "0")
        message(SEND_ERROR "${name}: its failpoints make code in a build that should have none")
    endif()
    math(EXPR looked_at "${looked_at} + 1")
endforeach()
if(looked_at LESS 20)
    message(FATAL_ERROR "only ${looked_at} files with failpoints found: this looks at the wrong build")
endif()

run("nm" ${NM} --demangle ${LIBRARY})
if(said MATCHES "pass_failpoint|record_socket|core::failpoints")
    message(SEND_ERROR "the library has a symbol of the failpoints: ${CMAKE_MATCH_0}")
endif()
message(STATUS "${looked_at} files looked at")
