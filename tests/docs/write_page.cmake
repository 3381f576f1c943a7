# Writes the C++ of a page as one file, in order, for a program that is built from it:
#
#   ```cpp        as it stands
#   ```cpp body   as the body of a function `run_<line>(connection, service)`; run_all(connection, service) calls all of them
#
# A page whose C++ begins with an #include stands alone; the others have preamble.hpp before them. The compiler tells mistakes
# with the page's own lines.
#
# cmake -DROOT= -DPAGE=docs/http.md -DOUT=<file> -P write_page.cmake
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/fragments.cmake)

set(code "")
set(calls "")
read_blocks(${ROOT}/${PAGE} block)
math(EXPR last "${block_count} - 1")
foreach(i RANGE ${last})
    set(kind "${block_${i}_kind}")
    set(line ${block_${i}_line})
    set(text "#line ${line} \"${PAGE}\"\n${block_${i}_text}")
    if(code STREQUAL "" AND kind MATCHES "^cpp" AND NOT block_${i}_text MATCHES "^#include")
        set(code "#include \"${CMAKE_CURRENT_LIST_DIR}/preamble.hpp\"\n")
    endif()
    if(kind STREQUAL "cpp")
        string(APPEND code "${text}")
    elseif(kind STREQUAL "cpp body")
        string(APPEND code "static void run_${line}([[maybe_unused]] pqxx::connection& connection, [[maybe_unused]] skald::service& service)\n{\n${text}}\n")
        string(APPEND calls "    run_${line}(connection, service);\n")
    endif()
endforeach()
if(calls)
    string(APPEND code "static void run_all(pqxx::connection& connection, skald::service& service)\n{\n${calls}}\n")
endif()
file(WRITE ${OUT} "${code}")
