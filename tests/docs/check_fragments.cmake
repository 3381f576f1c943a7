# The code in README.md and docs/ is checked as it stands:
#
#   ```cpp        the blocks of a page, in order, are one translation unit, which must compile
#   ```cpp body   the same, as the body of a function that has a `connection` and a `worker`
#   ```sh         must parse (bash -n)
#   ```sql        is written to WORK/sql/ for the tests that have a database
#
# A page whose C++ begins with an #include stands alone; the others have preamble.hpp before them.
#
# cmake -DROOT= -DWORK= -DCOMPILER= [-DINCLUDES=a;b] -P check_fragments.cmake
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/fragments.cmake)

# Appends a C++ block to the page's file. Errors are told with the page's own lines.
function(append_cpp file page line kind text)
    if(NOT EXISTS ${file} AND NOT text MATCHES "^#include")
        file(WRITE ${file} "#include \"${CMAKE_CURRENT_LIST_DIR}/preamble.hpp\"\n")
    endif()
    if(kind STREQUAL "cpp body")
        set(text "void fragment_${line}([[maybe_unused]] pqxx::connection& connection, [[maybe_unused]] skald::worker& worker)\n{\n#line ${line} \"${page}\"\n${text}}\n")
    else()
        set(text "#line ${line} \"${page}\"\n${text}")
    endif()
    file(APPEND ${file} "${text}")
endfunction()

function(compile file)
    # `{.key = "..."}` leaves the other options out on purpose.
    set(flags -std=c++20 -fsyntax-only -Wall -Wextra -Werror -I ${ROOT}/framework/include)
    # As a system folder, /usr/include would hide the standard library's own headers.
    list(REMOVE_ITEM INCLUDES /usr/include)
    foreach(folder IN LISTS INCLUDES)
        list(APPEND flags -isystem ${folder})
    endforeach()
    execute_process(COMMAND ${COMPILER} ${flags} ${file} RESULT_VARIABLE code ERROR_VARIABLE errors)
    if(NOT code EQUAL 0)
        message(SEND_ERROR "the C++ blocks do not compile:\n${errors}")
    endif()
endfunction()

function(check_shell page line text)
    file(WRITE ${WORK}/block.sh "${text}")
    execute_process(COMMAND bash -n ${WORK}/block.sh RESULT_VARIABLE code ERROR_VARIABLE errors)
    if(NOT code EQUAL 0)
        message(SEND_ERROR "${page}:${line}: the shell block does not parse:\n${errors}")
    endif()
endfunction()

function(check_page page)
    string(MAKE_C_IDENTIFIER "${page}" name)
    set(cpp ${WORK}/${name}.cpp)
    set(sql_count 0)
    read_blocks(${ROOT}/${page} block)
    if(block_count GREATER 0)
        math(EXPR last "${block_count} - 1")
        foreach(i RANGE ${last})
            set(kind "${block_${i}_kind}")
            set(line ${block_${i}_line})
            if(kind MATCHES "^cpp( body)?$")
                append_cpp(${cpp} ${page} ${line} "${kind}" "${block_${i}_text}")
            elseif(kind STREQUAL "sh")
                check_shell(${page} ${line} "${block_${i}_text}")
            elseif(kind STREQUAL "sql")
                math(EXPR sql_count "${sql_count} + 1")
                file(WRITE ${WORK}/sql/${name}_${sql_count}.sql "${block_${i}_text}")
            elseif(NOT kind MATCHES "^(cmake|mermaid|)$")
                message(SEND_ERROR "${page}:${line}: nobody checks blocks of the kind '${kind}'")
            endif()
        endforeach()
    endif()
    if(EXISTS ${cpp})
        compile(${cpp})
    endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK}/sql)
file(GLOB pages RELATIVE ${ROOT} ${ROOT}/*.md ${ROOT}/docker/*.md ${ROOT}/docs/*.md ${ROOT}/docs/adr/*.md)
foreach(page IN LISTS pages)
    check_page(${page})
endforeach()
