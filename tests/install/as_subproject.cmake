# Skald's source as part of somebody's build: by FetchContent, built and run as docs/install.md shows it, and by add_subdirectory.
#
# cmake -DROOT= -DPYTHON= -DWORK= -DGENERATOR= -DCOMPILER= -P as_subproject.cmake
cmake_minimum_required(VERSION 3.25)

function(run)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
    if(NOT result STREQUAL "0")
        list(JOIN ARGN " " command)
        message(FATAL_ERROR "${command}\nended with ${result}:\n${said}")
    endif()
endfunction()

# configure(<name> <folder> <lines>): a project with README.md's program, which builds Skald in that folder of its own.
function(configure name made lines)
    file(WRITE ${WORK}/${name}/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)\nproject(outside LANGUAGES CXX)\n${lines}")
    run(${PYTHON} ${ROOT}/tests/docs/pages.py program ${ROOT} README.md ${WORK}/${name}/payments.cpp)
    # Quickly built: as one file for each target, and not optimised.
    run(${CMAKE_COMMAND} -S ${WORK}/${name} -B ${WORK}/${name}/build -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER}
        -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_CXX_FLAGS_DEBUG=-O0")
    # Neither Skald's tests nor what only they need.
    run(${CMAKE_COMMAND} --build ${WORK}/${name}/build --target help)
    foreach(part tests tools bench examples)
        if(EXISTS ${WORK}/${name}/build/${made}/${part})
            message(FATAL_ERROR "${name} would build Skald's ${part}")
        endif()
    endforeach()
    if(NOT EXISTS ${WORK}/${name}/build/${made}/framework)
        message(FATAL_ERROR "${name} does not build Skald in ${made}")
    endif()
    # Nor is anything of Skald's installed with the project.
    run(${CMAKE_COMMAND} --install ${WORK}/${name}/build --prefix ${WORK}/${name}/prefix)
    if(EXISTS ${WORK}/${name}/prefix)
        message(FATAL_ERROR "${name} would install Skald")
    endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
file(CREATE_LINK ${ROOT} ${WORK}/skald SYMBOLIC)  # where the page has it

execute_process(COMMAND ${PYTHON} ${ROOT}/tests/docs/pages.py blocks ${ROOT} docs/install.md cmake
    OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
configure(fetched _deps/skald-build "${lines}")
run(${CMAKE_COMMAND} --build ${WORK}/fetched/build --parallel --target payments)
run(${WORK}/fetched/build/payments --help)

# It makes the same targets: that they can be made is enough.
configure(added skald "add_subdirectory(../skald skald)
add_executable(payments payments.cpp)
target_link_libraries(payments PRIVATE skald::skald)
")
file(REMOVE_RECURSE ${WORK})
