# What `skald new` makes, with what was installed: refused names, then a project over three services and one over a single
# one. Built and tested as the CI file of the project says; and its proof finds a compensation that undoes too little.
# Included by install_and_use.cmake, whose functions and variables it uses.
set(skald ${WORK}/prefix/bin/skald)
set(ENV{CMAKE_PREFIX_PATH} ${WORK}/prefix)
set(ENV{CXX} ${COMPILER})
set(ENV{CMAKE_GENERATOR} Ninja) # that is what scripts/setup.sh installs; the project's CI file installs make
if(NOT DEFINED ENV{DATABASE_URL})
    message(FATAL_ERROR "DATABASE_URL is not set: the tests of a new project need a PostgreSQL server (scripts/stack.sh)")
endif()

# build_as_ci_says(<project>): the step of the name in .github/workflows/ci.yml.
function(build_as_ci_says project)
    file(READ ${WORK}/${project}/.github/workflows/ci.yml text)
    if(NOT text MATCHES "- name: Build and test\n        run: [|]\n((          [^\n]*\n)+)")
        message(FATAL_ERROR "the CI file of ${project} has no step `Build and test`:\n${text}")
    endif()
    set(commands "${CMAKE_MATCH_1}")
    run(bash -euc "cd '${WORK}/${project}'\n${commands}")
endfunction()

foreach(name Shop shop- shop--two 2shop a123456789b123456789c123456789d123456)
    run_refused("can't be the name of a project" ${skald} new ${WORK}/${name} --services orders)
    run_refused("can't be the name of a service" ${skald} new ${WORK}/shop --services orders,${name})
endforeach()
run_refused("twice" ${skald} new ${WORK}/shop --services orders,payments,orders)
foreach(name postgres skald)
    run_refused("PostgreSQL or Skald keeps that name" ${skald} new ${WORK}/shop --services orders,${name})
endforeach()
run_refused("--services is required" ${skald} new ${WORK}/shop)
run_refused("make it first" ${skald} new ${WORK}/nowhere/shop --services orders)
if(EXISTS ${WORK}/shop)
    message(FATAL_ERROR "a project that was refused is there")
endif()

run(${skald} new ${WORK}/shop --services orders,payments,shipping)
file(WRITE ${WORK}/shop/mine "")
run_refused("is there already" ${skald} new ${WORK}/shop --services orders)
if(NOT EXISTS ${WORK}/shop/mine)
    message(FATAL_ERROR "a project was written over")
endif()
build_as_ci_says(shop)

# A name that YAML would take for no text, in a folder that a shell would take for two words.
file(MAKE_DIRECTORY "${WORK}/my work")
execute_process(COMMAND ${skald} new "${WORK}/my work/true" --services orders OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
if(NOT said MATCHES "  cd '[^\n]*/my work/true' && cmake")
    message(FATAL_ERROR "a shell can't run what `skald new` says:\n${said}")
endif()
file(READ "${WORK}/my work/true/compose.yaml" text)
if(NOT text MATCHES "\nname: \"true\"\n")
    message(FATAL_ERROR "to YAML the name of the project true is no text:\n${text}")
endif()

# Its README.md is followed a second time: the server's volume has kept the first.
file(STRINGS ${WORK}/shop/README.md stocked REGEX "INSERT INTO stock")
if(NOT stocked)
    message(FATAL_ERROR "the README.md of a new project fills no stock")
endif()
foreach(line IN LISTS stocked)
    string(REGEX REPLACE "^.* -c \"([^\"]+)\".*$" "\\1" insert "${line}")
    run(psql -X -v ON_ERROR_STOP=1 $ENV{DATABASE_URL} -c "CREATE TEMP TABLE stock (item text PRIMARY KEY, free bigint)"
        -c "${insert}" -c "${insert}")
endforeach()

foreach(service orders payments shipping)
    run(${WORK}/shop/build/${service}_service --help)
endforeach()

run(${skald} new ${WORK}/one-shop --services stock-room)
build_as_ci_says(one-shop)

file(READ ${WORK}/shop/src/services/payments.hpp text)
string(REPLACE "ctx.sql(\"DELETE FROM reservation WHERE booking_id = $1\", b.id);" "" text "${text}")
file(WRITE ${WORK}/shop/src/services/payments.hpp "${text}")
run(${CMAKE_COMMAND} --build ${WORK}/shop/build)
run_refused("reserve-in-payments" ${WORK}/shop/build/shop_test "--test-case=*happens once*")

# Nothing half-made is left.
file(GLOB left ${WORK}/*.unfinished)
if(left)
    message(FATAL_ERROR "left behind: ${left}")
endif()
