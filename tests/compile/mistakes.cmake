# Each file in mistakes/ compiles, and with -DMISTAKE it does not: so the mistake is the reason. What the compiler then says
# has the text behind `// expected: `, GCC in its first error: nobody should have to read on.
# cmake -DCOMPILER= -DHEADERS=<folder> -DINCLUDE=<folder|folder...> -P mistakes.cmake
include(${CMAKE_CURRENT_LIST_DIR}/compiler.cmake)

file(GLOB sources ${CMAKE_CURRENT_LIST_DIR}/mistakes/*.cpp)
list(LENGTH sources count)
if(count LESS 10)
    message(FATAL_ERROR "only ${count} files in mistakes/")
endif()
foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME)
    file(STRINGS ${source} expected LIMIT_COUNT 1 REGEX "^// expected: ")
    string(REPLACE "// expected: " "" expected "${expected}")
    if(NOT expected)
        message(SEND_ERROR "${name} does not say what is expected")
    endif()

    compile(${source})
    if(NOT compiles)
        message(SEND_ERROR "${name} does not compile without its mistake either:\n${said}")
    endif()

    compile(${source} -DMISTAKE)
    set(first "${said}")  # clang++ says of a consteval function first that it is none, and then which
    if(NOT COMPILER MATCHES "clang")
        string(REGEX MATCH "[^\n]*error:[^\n]*" first "${said}")
    endif()
    string(FIND "${first}" "${expected}" at)
    if(compiles)
        message(SEND_ERROR "${name} compiles with its mistake")
    elseif(at EQUAL -1)
        message(SEND_ERROR "${name}: '${expected}' is not in the first error of what the compiler says:\n${said}")
    endif()
endforeach()
message(STATUS "${count} mistakes looked at")
