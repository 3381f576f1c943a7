# Each public header compiles by itself, and may be included twice.
# cmake -DCOMPILER= -DHEADERS=<folder> -DINCLUDE=<folder|folder...> -P headers.cmake
include(${CMAKE_CURRENT_LIST_DIR}/compiler.cmake)

file(GLOB_RECURSE headers ${HEADERS}/skald/*.hpp)
list(LENGTH headers count)
if(count LESS 10)
    message(FATAL_ERROR "only ${count} headers in ${HEADERS}/skald: this looks at the wrong folder")
endif()
foreach(header IN LISTS headers)
    compile(/dev/null -Wall -Wextra -Werror -include ${header} -include ${header})
    if(NOT compiles)
        message(SEND_ERROR "${header} does not compile by itself:\n${said}")
    endif()
endforeach()
message(STATUS "${count} headers looked at")
