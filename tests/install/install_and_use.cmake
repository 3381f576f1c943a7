# Installs the build into WORK, builds the project OUTSIDE against it, and runs it. Any step that fails ends it.
function(run)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
    if(NOT result STREQUAL "0")
        list(JOIN ARGN " " command)
        message(FATAL_ERROR "${command}\nended with ${result}:\n${said}")
    endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix --config ${BUILD_TYPE})
run(${CMAKE_COMMAND} -S ${OUTSIDE} -B ${WORK}/build -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${WORK}/prefix
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=${BUILD_TYPE} -DWANTED_VERSION=${VERSION})
run(${CMAKE_COMMAND} --build ${WORK}/build --config ${BUILD_TYPE})
run(${WORK}/build/outside)
run(${WORK}/build/outside_test)

# What is for use has nothing of the test kit in it.
execute_process(COMMAND nm -C ${WORK}/build/outside OUTPUT_VARIABLE symbols RESULT_VARIABLE result)
if(NOT result STREQUAL "0" OR symbols MATCHES "skald::(testing|memory)::")
    message(SEND_ERROR "a program that links skald::skald has symbols of the test kit, or nm can't tell")
endif()

# Nothing that was installed points back to where it was built.
file(GLOB_RECURSE installed ${WORK}/prefix/*.cmake ${WORK}/prefix/*.hpp)
foreach(file IN LISTS installed)
    file(READ ${file} text)
    string(FIND "${text}" "${BUILD}" at)
    if(NOT at EQUAL -1)
        message(SEND_ERROR "${file} names the build folder")
    endif()
endforeach()
file(REMOVE_RECURSE ${WORK})
