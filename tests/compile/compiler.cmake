# compile(<source> [flags...]): looks at a file without making anything. Sets `compiles` and `said`.
string(REPLACE "|" ";" folders "${INCLUDE}")
set(include_flags)
foreach(folder IN LISTS folders)
    if(folder)
        list(APPEND include_flags -isystem ${folder})
    endif()
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
