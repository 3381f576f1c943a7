# skald_compile_together(TARGET): all files of a test program as one. The others are compiled file by file, since two of their
# files may use one name, each in its unnamed namespace.
function(skald_compile_together target)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
endfunction()
