# The mutants' patches: what each changes, and whether it still does. A patch begins with what is wrong, the run that must
# notice it and the invariant that it breaks there (mutants.cpp reads them); below is what `git diff` prints.
#
#     cmake -DROOT=<checkout> -P patches.cmake                                 every patch that is no mutant is printed
#     cmake -DROOT=<checkout> -DPATCH=<NAME.patch> -DINTO=<folder> -P patches.cmake   copies what it changes, and changes it
#     cmake -DSELF_TEST=<empty folder> -P patches.cmake                        shows on made-up patches that it can fail
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/../../rule_trees.cmake)

# The files that a patch changes, relative to the checkout.
function(files_of_patch patch out)
    file(STRINGS ${patch} lines REGEX "^\\+\\+\\+ b/")
    list(TRANSFORM lines REPLACE "^\\+\\+\\+ b/([^\t]*).*" "\\1")
    set(${out} ${lines} PARENT_SCOPE)
endfunction()

set(severity SEND_ERROR)
function(offence patch why)
    get_filename_component(name ${patch} NAME)
    message(${severity} "tests/crash/mutants/${name}\n    ${why}")
endfunction()

function(check_patch root patch)
    foreach(word "What is wrong" "Noticed by" "Breaks")
        file(STRINGS ${patch} found REGEX "^${word}: ." LIMIT_COUNT 1)
        if(NOT found)
            offence(${patch} "its head has no line '${word}: ...': see the others")
        endif()
    endforeach()

    files_of_patch(${patch} files)
    file(STRINGS ${patch} changed REGEX "^(\\+[^+]|-[^-])")
    if(NOT files OR NOT changed)
        offence(${patch} "it changes nothing: what `git diff` prints belongs below its head")
        return()
    endif()
    foreach(file IN LISTS files)
        # What includes a header is not compiled again, and statements of sql/queries/ are compiled into several files.
        if(NOT file MATCHES "^framework/src/.*\\.cpp$|^sql/migrations/.*\\.sql$")
            offence(${patch} "it changes ${file}: a mutant is made of .cpp files of framework/src/ and of sql/migrations/")
            return()
        endif()
    endforeach()

    get_filename_component(name ${patch} NAME)
    find_program(patch_program patch REQUIRED)
    execute_process(COMMAND ${patch_program} --dry-run --force --fuzz=0 --strip=1 --directory=${root} --input=${patch}
                    RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
    if(NOT result STREQUAL "0")
        string(REPLACE "\n" "\n    " said "${said}")
        offence(${patch} "it no longer applies to the sources. Plant the same fault in them as they are now, put what\n    \
`git diff framework sql` prints in place of the old below the head of the patch, and undo the fault\n    \
(`git apply -R tests/crash/mutants/${name}`). What `patch` says:\n    ${said}")
    endif()
endfunction()

function(apply_patch root patch into)
    set(severity FATAL_ERROR)
    check_patch(${root} ${patch})
    files_of_patch(${patch} files)
    file(REMOVE_RECURSE ${into})
    foreach(file IN LISTS files)
        get_filename_component(folder ${file} DIRECTORY)
        file(COPY ${root}/${file} DESTINATION ${into}/${folder})
    endforeach()
    execute_process(COMMAND ${patch_program} --silent --force --fuzz=0 --strip=1 --directory=${into} --input=${patch}
                    COMMAND_ERROR_IS_FATAL ANY)
    foreach(file IN LISTS files)
        file(TOUCH ${into}/${file})  # a copy is as old as what it was copied from
    endforeach()
endfunction()

function(check_all root)
    file(GLOB patches ${root}/tests/crash/mutants/*.patch)
    list(LENGTH patches count)
    if(count EQUAL 0)
        message(FATAL_ERROR "no mutants in ${root}")
    endif()
    foreach(patch IN LISTS patches)
        check_patch(${root} ${patch})
    endforeach()
    message(STATUS "${count} mutants looked at")
endfunction()

# With this text as the patch of one source, `expected` must be printed; nothing where the patch is good.
function(made_up text expected)
    math(EXPR next "${trees_count} + 1")
    file(WRITE ${trees_folder}/${next}/framework/src/core/a.cpp "int a;\nint b;\n")
    tree(tests/crash/mutants/m.patch "${text}" "${expected}")
    set(trees_count ${trees_count} PARENT_SCOPE)
endfunction()

function(self_test folder)
    begin_trees(${folder} ${CMAKE_CURRENT_FUNCTION_LIST_FILE})
    set(head "What is wrong: it\nNoticed by: forward\nBreaks: I1\n\n")
    set(files "--- a/framework/src/core/a.cpp\n+++ b/framework/src/core/a.cpp\n")
    made_up("${head}${files}@@ -1,2 +1,2 @@\n-int a;\n+int c;\n int b;\n" "")
    made_up("${files}@@ -1,2 +1,2 @@\n-int a;\n+int c;\n int b;\n" "no line 'What is wrong")
    made_up("What is wrong: it\nNoticed by: forward\n\n${files}@@ -1,2 +1,2 @@\n-int a;\n+int c;\n int b;\n" "no line 'Breaks")
    made_up("${head}" "it changes nothing")
    made_up("${head}${files}@@ -1,2 +1,2 @@\n int a;\n int b;\n" "it changes nothing")
    made_up("${head}${files}@@ -1,2 +1,2 @@\n-int x;\n+int c;\n int b;\n" "no longer applies")
    made_up("${head}${files}@@ -1,2 +1,2 @@\n-int a;\n+int c;\n int x;\n" "no longer applies")
    string(REPLACE "a.cpp" "b.cpp" others "${files}")
    made_up("${head}${others}@@ -1,2 +1,2 @@\n-int a;\n+int c;\n int b;\n" "no longer applies")
    string(REPLACE "a.cpp" "a.hpp" others "${files}")
    made_up("${head}${others}@@ -1,2 +1,2 @@\n-int a;\n+int c;\n int b;\n" "it changes framework/src/core/a.hpp")
    tree(README.md "" "no mutants")
    end_trees()
endfunction()

if(NOT CMAKE_SCRIPT_MODE_FILE)
    return()  # CMakeLists.txt wants files_of_patch()
endif()
if(SELF_TEST)
    self_test(${SELF_TEST})
elseif(PATCH)
    apply_patch(${ROOT} ${PATCH} ${INTO})
elseif(ROOT)
    check_all(${ROOT})
endif()
