# The code in README.md and docs/ is run as it stands, by its kind:
#
#   ```cpp, ```cpp body   the blocks of a page, in order, are one program: run_pages.cmake has them, by page
#   ```sh, ```sql         commands.sh runs them; here a command must parse (bash -n)
#   ```cmake              tests/install builds it, with the C++ of its page
#
# This holds that there is no other kind, and that no page with C++ is left out.
#
# cmake -DROOT= -DWORK= -P check_fragments.cmake
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/fragments.cmake)

function(check_shell page line text)
    file(WRITE ${WORK}/block.sh "${text}")
    execute_process(COMMAND bash -n ${WORK}/block.sh RESULT_VARIABLE code ERROR_VARIABLE errors)
    if(NOT code EQUAL 0)
        message(SEND_ERROR "${page}:${line}: the shell block does not parse:\n${errors}")
    endif()
endfunction()

function(check_page page)
    read_blocks(${ROOT}/${page} block)
    if(block_count EQUAL 0)
        return()
    endif()
    math(EXPR last "${block_count} - 1")
    foreach(i RANGE ${last})
        set(kind "${block_${i}_kind}")
        set(line ${block_${i}_line})
        if(kind MATCHES "^cpp( body)?$")
            string(FIND "${programs}" "docs_page(${page} " at)
            if(at EQUAL -1)
                message(SEND_ERROR "${page}:${line}: nobody runs this C++: give the page a program in tests/docs/run_pages.cmake")
            endif()
        elseif(kind STREQUAL "sh")
            check_shell(${page} ${line} "${block_${i}_text}")
        elseif(NOT kind MATCHES "^(sql|cmake|mermaid|)$")
            message(SEND_ERROR "${page}:${line}: nobody runs blocks of the kind '${kind}'")
        endif()
    endforeach()
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
file(READ ${CMAKE_CURRENT_LIST_DIR}/run_pages.cmake programs)
file(GLOB pages RELATIVE ${ROOT} ${ROOT}/*.md ${ROOT}/docker/*.md ${ROOT}/docs/*.md ${ROOT}/docs/adr/*.md)
foreach(page IN LISTS pages)
    check_page(${page})
endforeach()
