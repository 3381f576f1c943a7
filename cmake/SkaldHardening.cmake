# What makes a mistake in memory end the process, and not let in whoever sent the bytes. After the guide of the OpenSSF, "Compiler
# Options Hardening Guide for C and C++". Not with sanitizers, which see more; fortified only where the compiler optimises.
#
# tests/install/hardened.cmake looks at what was built.
option(SKALD_HARDEN "Build with stack protection, fortified calls, checked containers, and read-only relocations" ON)
if(NOT SKALD_HARDEN OR SKALD_SANITIZE OR SKALD_FUZZ)
    return()
endif()
include(CheckCXXCompilerFlag)
include(CheckPIESupported)
check_pie_supported()

foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection=full -mbranch-protection=standard)
    string(MAKE_C_IDENTIFIER "skald_has${flag}" has)
    check_cxx_compiler_flag(${flag} ${has})
    if(${has})
        target_compile_options(skald_build_flags INTERFACE ${flag})
    endif()
endforeach()
set(optimised $<NOT:$<CONFIG:Debug>>)
target_compile_options(skald_build_flags INTERFACE $<${optimised}:-U_FORTIFY_SOURCE> $<${optimised}:-D_FORTIFY_SOURCE=2>)
target_compile_definitions(skald_build_flags INTERFACE _GLIBCXX_ASSERTIONS)
if(NOT APPLE)
    target_link_options(skald_build_flags INTERFACE LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
endif()
