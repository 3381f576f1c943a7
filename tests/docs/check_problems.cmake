# docs/http.md lists every type of problem with its status, and no other: those of framework/src/http/problem_types.hpp, where
# the compiler sees to it that there are no more.
#
# cmake -DROOT= -P check_problems.cmake
cmake_minimum_required(VERSION 3.25)

file(READ ${ROOT}/framework/src/http/problem_types.hpp source)
string(REGEX MATCHALL "{\"[a-z-]+\", [0-9]+," kinds "${source}")
list(TRANSFORM kinds REPLACE "{\"([a-z-]+)\", ([0-9]+)," "\\1 \\2")
file(STRINGS ${ROOT}/docs/http.md rows REGEX "^[|] `[a-z-]+` [|] [0-9]+ [|]")
list(TRANSFORM rows REPLACE "^[|] `([a-z-]+)` [|] ([0-9]+) .*" "\\1 \\2")

list(LENGTH kinds count)
string(REGEX MATCH "array<problem_kind, ([0-9]+)>" declared "${source}")
if(NOT count EQUAL CMAKE_MATCH_1)
    message(SEND_ERROR "problem_types.hpp: ${CMAKE_MATCH_1} types are declared, and ${count} were read")
endif()
foreach(kind IN LISTS kinds)
    if(NOT kind IN_LIST rows)
        message(SEND_ERROR "docs/http.md: the type ${kind} is in the source and not on the page")
    endif()
endforeach()
foreach(row IN LISTS rows)
    if(NOT row IN_LIST kinds)
        message(SEND_ERROR "docs/http.md: the type ${row} is on the page and not in the source")
    endif()
endforeach()

# No type is made up elsewhere.
file(GLOB_RECURSE files ${ROOT}/framework/src/*.?pp)
foreach(file IN LISTS files)
    file(READ ${file} text)
    string(REGEX MATCHALL "/problems/[a-z-]*\"" made "${text}")
    if(made AND NOT made STREQUAL "/problems/\"")
        message(SEND_ERROR "${file}: the type ${made} is not from problem_types.hpp")
    endif()
endforeach()
message(STATUS "${count} types of problems looked at")
