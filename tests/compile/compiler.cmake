# compile(<source> [flags...]): looks at a file without making anything. Sets `compiles` and `said`.
# `HEADERS`: the folder of our own headers. `INCLUDE`: others' folders, joined by '|'.
set(include_flags -I ${HEADERS})
string(REPLACE "|" ";" folders "${INCLUDE}")
list(REMOVE_ITEM folders "" /usr/include)  # the compiler looks there by itself, and only in its own order
foreach(folder IN LISTS folders)
    list(APPEND include_flags -isystem ${folder})
endforeach()

function(compile source)
    execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only ${include_flags} ${ARGN} -x c++ ${source}
                    RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
    if(result STREQUAL "0")
        set(compiles TRUE PARENT_SCOPE)
    else()
        set(compiles FALSE PARENT_SCOPE)
    endif()
    set(said "${said}" PARENT_SCOPE)
endfunction()
