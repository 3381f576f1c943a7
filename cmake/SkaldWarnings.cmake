# Warnings and sanitizers, in one place. Link skald_build_flags PRIVATE.
add_library(skald_build_flags INTERFACE)
target_compile_options(skald_build_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough)
if(SKALD_WARNINGS_AS_ERRORS)
    target_compile_options(skald_build_flags INTERFACE -Werror)
endif()
if(SKALD_SANITIZE)
    target_compile_options(skald_build_flags INTERFACE -fsanitize=${SKALD_SANITIZE} -fno-omit-frame-pointer
                                                       -fno-sanitize-recover=all)
    target_link_options(skald_build_flags INTERFACE -fsanitize=${SKALD_SANITIZE})
endif()
