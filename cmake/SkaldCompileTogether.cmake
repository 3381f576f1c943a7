# skald_compile_together(TARGET): all files of a program as one, since each would take most of its time for the headers
# that they share: CLI11 alone is eight seconds of code in each file that includes it. Not for the library, whose files are
# held to including what they use.
function(skald_compile_together target)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
endfunction()
