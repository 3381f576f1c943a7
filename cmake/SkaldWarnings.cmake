# Warnings, sanitizers and failpoints, in one place. Link skald_build_flags PRIVATE.
add_library(skald_build_flags INTERFACE)
# Of files that are compiled as one, a name would shadow one of another file.
target_compile_options(skald_build_flags INTERFACE
    -Wall -Wextra -Wpedantic $<$<NOT:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wshadow> -Wconversion
    -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # Sees overlaps in std::string where there are none: gcc bug 105651, mended in 13.
    target_compile_options(skald_build_flags INTERFACE -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    # Sees uninitialized members of the std::variant behind pqxx::params where a number is passed to libpqxx 7.10.
    target_compile_options(skald_build_flags INTERFACE -Wno-maybe-uninitialized)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND SKALD_SANITIZE MATCHES "thread")
    # Asio has fences, which gcc's ThreadSanitizer does not follow, and says so.
    target_compile_options(skald_build_flags INTERFACE -Wno-tsan)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND PROJECT_IS_TOP_LEVEL)
    # The compiler tidies up only above a GiB of its own memory: a file has less, and it took a twelfth of the time.
    target_compile_options(skald_build_flags INTERFACE --param=ggc-min-heapsize=1048576)
endif()
if(SKALD_WARNINGS_AS_ERRORS)
    target_compile_options(skald_build_flags INTERFACE -Werror)
endif()
if(SKALD_FAILPOINTS)
    target_compile_definitions(skald_build_flags INTERFACE SKALD_FAILPOINTS=1)
endif()
if(SKALD_SANITIZE)
    target_compile_options(skald_build_flags INTERFACE -fsanitize=${SKALD_SANITIZE} -fno-omit-frame-pointer
                                                       -fno-sanitize-recover=all)
    target_link_options(skald_build_flags INTERFACE -fsanitize=${SKALD_SANITIZE})
endif()
