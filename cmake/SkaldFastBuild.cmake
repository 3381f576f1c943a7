# SKALD_FAST_BUILD: what a build may do to take less time, in the cache or the environment. scripts/tidy.sh asks for `all`.
# Nothing that is installed comes from such a build's shortcuts but `tests`, which leaves the library as it is.
#
#   tests   the tests are not optimised, and read their heavy headers precompiled
#   all     besides, all files of one target are compiled together
#
# One of CI's builds has to be without `all`, or nobody finds the file that forgets an include.
set(SKALD_FAST_BUILD "$ENV{SKALD_FAST_BUILD}" CACHE STRING "Shortcuts for a build that is made once: empty, 'tests' or 'all'")
if(NOT SKALD_FAST_BUILD MATCHES "^(|tests|all)$")
    message(FATAL_ERROR "SKALD_FAST_BUILD is '${SKALD_FAST_BUILD}': it may be empty, 'tests' or 'all'")
endif()

# Compiled together, a name in an unnamed namespace must be the target's only one. Of two files that share one, the second
# stands here and is compiled by itself.
set(skald_compiled_alone
    framework/src/admin/saga_list.cpp
    framework/src/http/head_rules.cpp
    framework/src/http/request_reader.cpp
    framework/src/rabbitmq/publish_session.cpp
    tools/duplicator/tap.cpp
    tools/skald/saga_commands.cpp
    examples/order_saga/demo/order_client.cpp
    examples/order_saga/demo/order_load.cpp
    examples/order_saga/demo/shop_databases.cpp
    bench/sweep/phase.cpp)

# These are doctest's implementation, for which its header is read in another way.
set(skald_not_precompiled
    examples/order_saga/tests/order_saga_test.cpp
    tests/integration/services/main.cpp
    tests/support/doctest_main.cpp)

# set_for(<target> <property> <file>...): of those files that the target has.
function(set_for target property)
    foreach(file IN LISTS ARGN)
        set_source_files_properties(${PROJECT_SOURCE_DIR}/${file} TARGET_DIRECTORY ${target} PROPERTIES ${property} ON)
    endforeach()
endfunction()

# Every target below `folder` that is compiled with our flags.
function(skald_targets_below folder out)
    set(all)
    get_property(found DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target IN LISTS found)
        get_target_property(libraries ${target} LINK_LIBRARIES)
        if("skald_build_flags" IN_LIST libraries)
            list(APPEND all ${target})
        endif()
    endforeach()
    get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    foreach(below IN LISTS folders)
        skald_targets_below(${below} more)
        list(APPEND all ${more})
    endforeach()
    set(${out} "${all}" PARENT_SCOPE)
endfunction()

# All programs of the tests share one precompiled header: to make it takes as long as to read its headers.
function(skald_build_tests_fast)
    file(WRITE ${PROJECT_BINARY_DIR}/precompiled.cpp "")
    add_executable(skald_precompiled EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/precompiled.cpp)
    target_precompile_headers(skald_precompiled PRIVATE
        <algorithm> <array> <atomic> <chrono> <condition_variable> <fstream> <functional> <map> <memory> <mutex> <optional>
        <random> <set> <span> <sstream> <string> <string_view> <thread> <variant> <vector>
        <pqxx/pqxx> <nlohmann/json.hpp> <fmt/format.h> <doctest/doctest.h>)
    target_link_libraries(skald_precompiled PRIVATE skald_build_flags skald_doctest_main PkgConfig::libpqxx
                                                    nlohmann_json::nlohmann_json fmt::fmt)
    target_compile_options(skald_precompiled PRIVATE -O0)

    skald_targets_below(${PROJECT_SOURCE_DIR}/tests programs)
    foreach(target IN LISTS programs)
        get_target_property(type ${target} TYPE)
        get_target_property(libraries ${target} LINK_LIBRARIES)
        # The header leaves names behind that only doctest has.
        if(type STREQUAL "EXECUTABLE" AND libraries MATCHES "doctest")
            target_precompile_headers(${target} REUSE_FROM skald_precompiled)
            set_for(${target} SKIP_PRECOMPILE_HEADERS ${skald_not_precompiled})
            target_compile_options(${target} PRIVATE -O0)
            # A precompiled header goes with one set of macros, and fmt's own are in it.
            target_compile_definitions(${target} PRIVATE $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
        endif()
    endforeach()
endfunction()

# Everything but the tests, which have helpers of one name in many files.
function(skald_compile_together)
    get_property(folders DIRECTORY ${PROJECT_SOURCE_DIR} PROPERTY SUBDIRECTORIES)
    list(REMOVE_ITEM folders ${PROJECT_SOURCE_DIR}/tests)
    foreach(folder IN LISTS folders)
        skald_targets_below(${folder} targets)
        foreach(target IN LISTS targets)
            set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
            set_for(${target} SKIP_UNITY_BUILD_INCLUSION ${skald_compiled_alone})
        endforeach()
    endforeach()
endfunction()

# To be called when all targets are there.
function(skald_build_fast)
    if(SKALD_FAST_BUILD AND SKALD_BUILD_TESTS AND NOT SKALD_FUZZ)
        skald_build_tests_fast()
    endif()
    if(SKALD_FAST_BUILD STREQUAL "all")
        skald_compile_together()
    endif()
endfunction()
