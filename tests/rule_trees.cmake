# For scripts of rules over the checkout: shows on made-up trees of one file that the script which includes this can fail.
#
#     begin_trees(<empty folder> <script>)    then tree() for each case, then end_trees()

function(begin_trees folder script)
    file(REMOVE_RECURSE ${folder})
    set(trees_folder ${folder} PARENT_SCOPE)
    set(trees_script ${script} PARENT_SCOPE)
    set(trees_count 0 PARENT_SCOPE)
endfunction()

# With `text` in `file` the script must print `expected` and fail; where nothing is expected, it must pass.
function(tree file text expected)
    math(EXPR trees_count "${trees_count} + 1")
    set(trees_count ${trees_count} PARENT_SCOPE)
    set(root ${trees_folder}/${trees_count})
    file(WRITE ${root}/${file} "${text}")
    execute_process(COMMAND ${CMAKE_COMMAND} -DROOT=${root} -P ${trees_script}
                    RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
    string(FIND "${said}" "${expected}" at)
    if(expected STREQUAL "" AND NOT result STREQUAL "0")
        message(SEND_ERROR "a good ${file} was refused:\n${text}\n${said}")
    elseif(NOT expected STREQUAL "" AND (result STREQUAL "0" OR at EQUAL -1))
        message(SEND_ERROR "a bad ${file} passed, or it was not said so (${expected}):\n${text}\n${said}")
    endif()
endfunction()

function(end_trees)
    file(REMOVE_RECURSE ${trees_folder})
    message(STATUS "${trees_count} trees looked at")
endfunction()
