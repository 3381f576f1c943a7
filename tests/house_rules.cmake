# What a reviewer would have to remember: no test sleeps where it could wait for something, and a file that has grown beyond
# 400 lines is split.
#
#     cmake -DROOT=<checkout> -P tests/house_rules.cmake          every offence is printed, and it fails
#     cmake -DSELF_TEST=<empty folder> -P tests/house_rules.cmake     shows on made-up trees that it can fail
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/rule_trees.cmake)

set(lines_max 400)

# Sleeps in tests/, by file: a ratchet. May go down, not up. A test waits with skald/testing/wait_until.hpp, which ends as soon
# as what it waits for is true; a sleep is too short on a busy machine and too long on any other. Why each of these is there is
# said beside it: a fault or a load that has a length, a client's pause, or a look from time to time of a program that runs for
# minutes.
set(sleeps_in_chaos/operator.cpp 1)
set(sleeps_in_chaos/storm.cpp 4)
set(sleeps_in_crash/customer.cpp 4)
set(sleeps_in_crash/invariants.cpp 1)
set(sleeps_in_crash/run.cpp 1)
set(sleeps_in_crash/shop_world.cpp 2)
set(sleeps_in_integration/batch_faults_test.cpp 1)
set(sleeps_in_support/fresh_database.hpp 1)
set(sleeps_in_support/saboteur.cpp 1)

function(offence file why)
    message(SEND_ERROR "${file}\n    ${why}")
endfunction()

function(check_sleeps root file)
    file(STRINGS ${root}/${file} sleeping REGEX "sleep_for|sleep_until|pg_sleep *\\(|[^a-z_](usleep|nanosleep|sleep) *\\(")
    list(LENGTH sleeping count)
    set(allowed 0)
    if(DEFINED sleeps_in_${file})
        set(allowed ${sleeps_in_${file}})
    endif()
    if(count GREATER allowed)
        offence("tests/${file}" "${count} sleeps, ${allowed} allowed: wait with skald::testing::wait_until() instead")
    elseif(count LESS allowed)
        offence("tests/${file}" "sleeps are down to ${count}: lower the ${allowed} in tests/house_rules.cmake")
    endif()
endfunction()

function(check_length root file)
    file(READ ${root}/${file} text)
    string(REGEX MATCHALL "\n" ends "${text}")
    list(LENGTH ends lines)
    if(lines GREATER lines_max)
        offence(${file} "${lines} lines: a file has one idea, and at most ${lines_max} lines")
    endif()
endfunction()

function(check_tree root)
    file(GLOB_RECURSE tests RELATIVE ${root}/tests ${root}/tests/*.cpp ${root}/tests/*.hpp)
    foreach(file IN LISTS tests)
        check_sleeps(${root}/tests ${file})
    endforeach()
    set(files)
    # Not sql/migrations/: what has landed there never changes.
    foreach(folder framework tests tools examples bench cmake scripts sql/queries)
        file(GLOB_RECURSE found RELATIVE ${root} ${root}/${folder}/*.?pp ${root}/${folder}/*.cmake ${root}/${folder}/*.sh
             ${root}/${folder}/*.sql ${root}/${folder}/CMakeLists.txt)
        list(APPEND files ${found})
    endforeach()
    list(LENGTH files count)
    if(count EQUAL 0)
        message(FATAL_ERROR "nothing to look at in ${root}")
    endif()
    foreach(file IN LISTS files)
        check_length(${root} ${file})
    endforeach()
    message(STATUS "${count} files looked at")
endfunction()

# Each case is a tree of one file, and what must be printed; nothing where it must pass.
function(self_test folder)
    begin_trees(${folder} ${CMAKE_CURRENT_FUNCTION_LIST_FILE})
    tree(tests/unit/a.cpp "CHECK(wait_until([&] { return is_there(); }));\n" "")
    tree(tests/unit/a.cpp "asleep();\nint sleeps = 0;\n" "")
    tree(tests/unit/a.cpp "std::this_thread::sleep_for(1s);\n" "tests/unit/a.cpp")
    tree(tests/unit/a.cpp "std::this_thread::sleep_until(then);\n" "1 sleeps, 0 allowed")
    tree(tests/support/a.hpp "  ::sleep(1);\n  usleep(2);\n" "2 sleeps, 0 allowed")
    tree(tests/unit/a.cpp "db.run(\"SELECT pg_sleep(1)\");\n" "1 sleeps, 0 allowed")
    tree(tests/support/saboteur.cpp "int a;\n" "sleeps are down to 0: lower the 1")
    tree(framework/src/core/a.cpp "std::this_thread::sleep_for(1s);\n" "")
    string(REPEAT "int a;\n" 400 text)
    tree(framework/src/core/a.cpp "${text}" "")
    tree(framework/src/core/a.cpp "${text}\n" "framework/src/core/a.cpp")
    tree(sql/queries/a.sql "${text}\n" "401 lines")
    tree(README.md "" "nothing to look at")
    end_trees()
endfunction()

if(SELF_TEST)
    self_test(${SELF_TEST})
else()
    check_tree(${ROOT})
endif()
