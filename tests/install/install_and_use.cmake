# Installs the build into WORK, makes of README.md and docs/testing.md the projects that they show, somebody else's, builds
# these against what was installed, and runs them. Any step that fails ends it.
#
# cmake -DROOT= -DBUILD= -DPYTHON= -DWORK= -DVERSION= -DGENERATOR= -DCOMPILER= -DBUILD_TYPE= -P install_and_use.cmake
cmake_minimum_required(VERSION 3.25)

function(run)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
    if(NOT result STREQUAL "0")
        list(JOIN ARGN " " command)
        message(FATAL_ERROR "${command}\nended with ${result}:\n${said}")
    endif()
endfunction()

# run_refused(<text> <command>...): it fails, and says so in these words.
function(run_refused text)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
    string(FIND "${said}" "${text}" at)
    if(result STREQUAL "0" OR at EQUAL -1)
        list(JOIN ARGN " " command)
        message(FATAL_ERROR "${command}\nended with ${result}, and should have failed and said '${text}':\n${said}")
    endif()
endfunction()

# The page's CMake with the C++ of the page, in the file that the CMake names.
function(build_page page name source)
    set(folder ${WORK}/${name})
    file(MAKE_DIRECTORY ${folder})
    run(${PYTHON} ${ROOT}/tests/docs/pages.py program ${ROOT} ${page} ${folder}/${source})
    execute_process(COMMAND ${PYTHON} ${ROOT}/tests/docs/pages.py blocks ${ROOT} ${page} cmake
        OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
    file(WRITE ${folder}/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)
project(outside LANGUAGES CXX)
add_compile_options(-Wall -Wextra -Werror)
${lines}
if(NOT skald_VERSION VERSION_EQUAL ${VERSION})
    message(FATAL_ERROR \"found version \${skald_VERSION} instead of ${VERSION}\")
endif()
")
    run(${CMAKE_COMMAND} -S ${folder} -B ${folder}/build -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${WORK}/prefix
        -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=${BUILD_TYPE})
    run(${CMAKE_COMMAND} --build ${folder}/build --config ${BUILD_TYPE})
endfunction()

file(REMOVE_RECURSE ${WORK})
# README.md builds with a preset, and without what takes long: set up here, with shared libraries as docs/install.md has
# them too, and not built a second time.
run(${CMAKE_COMMAND} --preset release -S ${ROOT} -B ${WORK}/release -DCMAKE_CXX_COMPILER=${COMPILER} -DBUILD_SHARED_LIBS=ON
    -DCMAKE_INSTALL_LIBDIR=lib/of-here)
if(EXISTS ${WORK}/release/tests)
    message(FATAL_ERROR "the preset `release` would build the tests")
endif()
file(STRINGS ${WORK}/release/CMakeCache.txt sought REGEX "^httplib_FOUND")
if(sought)
    message(FATAL_ERROR "the preset `release` asks for cpp-httplib, which is of the tests")
endif()
file(READ ${WORK}/release/cmake_install.cmake text)
foreach(way "[$]ORIGIN/../lib/of-here/?\"" "[$]ORIGIN/?\"")
    if(NOT text MATCHES "RPATH \"[^\n]*${way}")
        message(FATAL_ERROR "what is installed with shared libraries does not find them: no ${way}")
    endif()
endforeach()
# A program that finds another libskald than it was built with ends at its start: tests/packages/inside.sh looks at programs.
foreach(file "skald-package/skald.pc" "CMakeFiles/Export/*/skaldTargets.cmake")
    file(GLOB found ${WORK}/release/${file})
    file(READ "${found}" text)
    if(NOT text MATCHES "-z,now")
        message(FATAL_ERROR "programs bind what they call of the shared libraries when they call it: no -z,now in ${found}")
    endif()
endforeach()
# And what is inline in Skald's headers is each program's own, also while another is loaded.
file(READ ${WORK}/release/compile_commands.json text)
if(NOT text MATCHES "-fvisibility-inlines-hidden")
    message(FATAL_ERROR "the shared libraries export inline functions")
endif()
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix --config ${BUILD_TYPE})

build_page(README.md readme payments.cpp)
set(payments ${WORK}/readme/build/payments)
run(${payments} --help)
run_refused("SKALD_LANES" ${CMAKE_COMMAND} -E env --unset=SKALD_TEST_STACK SKALD_LANES=many ${payments})

build_page(docs/redis.md redis shop.cpp)
run_refused("SKALD_REDIS_URL" ${CMAKE_COMMAND} -E env --unset=SKALD_TEST_STACK SKALD_GUARD=cache_aside ${WORK}/redis/build/shop)

build_page(docs/kafka.md kafka payments.cpp)
run_refused("SKALD_KAFKA_BROKERS" ${CMAKE_COMMAND} -E env --unset=SKALD_TEST_STACK SKALD_TRANSPORT=kafka ${WORK}/kafka/build/payments)

# No server is at hand here: the kit says so, and that is the test.
build_page(docs/testing.md testing shop_test.cpp)
run_refused("needs a PostgreSQL server" ${CMAKE_COMMAND} -E env "DATABASE_URL=host=127.0.0.1 port=1 user=nobody"
            ${WORK}/testing/build/shop_test)

# What is for use has nothing of the test kit in it.
execute_process(COMMAND nm -C ${payments} OUTPUT_VARIABLE symbols RESULT_VARIABLE result)
if(NOT result STREQUAL "0" OR symbols MATCHES "skald::(testing|memory)::")
    message(SEND_ERROR "a program that links skald::skald has symbols of the test kit, or nm can't tell")
endif()

include(${CMAKE_CURRENT_LIST_DIR}/new_project.cmake)

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
