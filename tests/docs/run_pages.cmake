# Programs that are built from the pages as they stand, and the tests that run them. pages.py holds that each page with C++ is
# among them.

# docs_page(<page> <out>): sets <out> to the file with the page's C++.
function(docs_page page out)
    string(MAKE_C_IDENTIFIER ${page} name)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/pages/${name}.cpp)
    add_custom_command(OUTPUT ${file}
        COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/pages.py program ${PROJECT_SOURCE_DIR} ${page} ${file}
        DEPENDS ${PROJECT_SOURCE_DIR}/${page} ${CMAKE_CURRENT_SOURCE_DIR}/pages.py
        COMMENT "The C++ of ${page}"
        VERBATIM)
    set(${out} ${file} PARENT_SCOPE)
endfunction()

# docs_program(<name> <source>...): the page, with its own main() or as page_service.cpp runs it.
function(docs_program name)
    add_executable(${name} ${ARGN})
    target_link_libraries(${name} PRIVATE skald::skald skald_build_flags)
endfunction()

docs_page(README.md readme)
docs_page(docs/start.md start)
docs_page(docs/testing.md testing)
docs_page(docs/concepts.md concepts)
docs_page(docs/http.md http)

docs_page(docs/external-steps.md external_steps)
docs_page(docs/waiting.md waiting)
docs_page(docs/messages.md messages)
docs_page(docs/events.md events)
docs_page(docs/redis.md redis)
docs_page(docs/bodies.md bodies)
docs_page(docs/finding.md finding)
docs_page(docs/kafka.md kafka)
docs_page(docs/change.md change)

# What these call is the reader's own, so they are compiled and not linked.
add_library(docs_external OBJECT ${external_steps} ${waiting} ${messages} ${events} ${redis} ${bodies} ${finding} ${kafka} ${change})
target_link_libraries(docs_external PRIVATE skald::skald skald_build_flags)

# scripts/setup.sh --dev has it; nothing else here needs it.
docs_page(docs/libcurl.md libcurl)
find_package(CURL)
if(CURL_FOUND)
    docs_program(docs_libcurl libcurl_test.cpp ${libcurl})
    set_source_files_properties(${libcurl} PROPERTIES HEADER_FILE_ONLY TRUE)
    target_include_directories(docs_libcurl PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    target_compile_definitions(docs_libcurl PRIVATE SKALD_PAGE="${libcurl}" SKALD_GATEWAY="$<TARGET_FILE:gateway>")
    target_link_libraries(docs_libcurl PRIVATE skald_rig skald_doctest_main CURL::libcurl)
    add_dependencies(docs_libcurl gateway)
    add_test(NAME docs_libcurl COMMAND docs_libcurl)
    set_tests_properties(docs_libcurl PROPERTIES LABELS integration TIMEOUT 120)
endif()

docs_program(docs_readme ${readme})
docs_program(docs_start ${start})
foreach(name concepts http)
    docs_program(docs_${name} page_service.cpp ${${name}})
    set_source_files_properties(${${name}} PROPERTIES HEADER_FILE_ONLY TRUE)
    target_compile_definitions(docs_${name} PRIVATE SKALD_PAGE="${${name}}")
endforeach()
target_compile_definitions(docs_concepts PRIVATE SKALD_SERVICE="hotels")
target_compile_definitions(docs_http PRIVATE SKALD_SERVICE="wallets")

# What docs/testing.md shows is a test program by itself.
add_executable(docs_testing ${testing})
target_link_libraries(docs_testing PRIVATE skald::testing doctest::doctest skald_build_flags)
add_test(NAME docs_testing COMMAND docs_testing)

add_executable(docs_pages_run pages_test.cpp ../integration/services/main.cpp)
target_include_directories(docs_pages_run PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/framework/include)
target_compile_definitions(docs_pages_run PRIVATE
    SKALD_README="$<TARGET_FILE:docs_readme>"
    SKALD_CONCEPTS="$<TARGET_FILE:docs_concepts>"
    SKALD_HTTP="$<TARGET_FILE:docs_http>"
    SKALD_TOOL="$<TARGET_FILE:skald_cli>"
    SKALD_SERVICES_DIR="${PROJECT_BINARY_DIR}/examples/order_saga"
    SKALD_STACK_SCRIPT="${PROJECT_SOURCE_DIR}/scripts/stack.sh")
target_link_libraries(docs_pages_run PRIVATE skald_rig skald_build_flags doctest::doctest nlohmann_json::nlohmann_json
    PkgConfig::libpqxx PkgConfig::librabbitmq Threads::Threads)
add_dependencies(docs_pages_run docs_readme docs_concepts docs_http skald_cli)
add_test(NAME docs_pages_run COMMAND docs_pages_run)

# A page waits for what does not come as patiently as its reader: so it is asked to end, and cleans up, before it is killed.
add_test(NAME docs_commands COMMAND timeout --kill-after=60 300 ${CMAKE_CURRENT_SOURCE_DIR}/commands.sh ${PROJECT_BINARY_DIR})

set_tests_properties(docs_testing docs_pages_run PROPERTIES LABELS server TIMEOUT 300)
set_tests_properties(docs_commands PROPERTIES LABELS server TIMEOUT 400)
