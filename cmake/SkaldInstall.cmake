# `cmake --install`: the library, its public headers, and a package for `find_package(skald)`.
include(CMakePackageConfigHelpers)

set(skald_package ${CMAKE_INSTALL_LIBDIR}/cmake/skald)
set(skald_package_made ${PROJECT_BINARY_DIR}/skald-package)

if(SKALD_FAILPOINTS)
    install(CODE "message(FATAL_ERROR \"A build with failpoints is for tests: configure with -DSKALD_FAILPOINTS=OFF to install\")")
endif()
set(skald_libraries skald skald_testing)
foreach(library skald_redis skald_s3 skald_kafka)
    if(TARGET ${library})
        list(APPEND skald_libraries ${library})
    endif()
endforeach()
# Wherever it is installed, what needs libskald finds it there. Debian's packages are where the linker looks anyway, and
# have none: CMAKE_SKIP_INSTALL_RPATH.
if(BUILD_SHARED_LIBS)
    file(RELATIVE_PATH libraries_from_programs ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
    set_target_properties(${skald_libraries} PROPERTIES INSTALL_RPATH "$ORIGIN")
    if(TARGET skald_cli)
        set_target_properties(skald_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${libraries_from_programs}")
    endif()
endif()
install(TARGETS ${skald_libraries} EXPORT skaldTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT skaldTargets NAMESPACE skald:: DESTINATION ${skald_package})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/framework/include/skald DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN *.hpp)
if(TARGET skald_cli)
    install(TARGETS skald_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/skaldConfig.cmake.in ${skald_package_made}/skaldConfig.cmake
                              INSTALL_DESTINATION ${skald_package})
# Before 1.0 a minor version may break what was there.
write_basic_package_version_file(${skald_package_made}/skaldConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${skald_package_made}/skaldConfig.cmake ${skald_package_made}/skaldConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/SkaldDependencies.cmake
        DESTINATION ${skald_package})

# The same for pkg-config, and for whoever has no CMake.
function(skald_pkg_config name description needs needs_privately)
    string(REPLACE - _ library ${name})
    if(BUILD_SHARED_LIBS)  # which have found them already
        set(needs_privately "")
    endif()
    configure_file(${PROJECT_SOURCE_DIR}/cmake/skald.pc.in ${skald_package_made}/${name}.pc @ONLY)
    install(FILES ${skald_package_made}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
skald_pkg_config(skald "${PROJECT_DESCRIPTION}" "libpqxx nlohmann_json"
                 "libpq librabbitmq openssl fmt prometheus-cpp-core")
skald_pkg_config(skald-testing "The test kit of Skald" "skald libpq fmt" "")
if(TARGET skald_redis)
    skald_pkg_config(skald-redis "Redis in front of Skald's guard" skald "hiredis openssl")
endif()
if(TARGET skald_s3)
    skald_pkg_config(skald-s3 "Large bodies of Skald behind S3's API" skald libcurl)
endif()
if(TARGET skald_kafka)
    skald_pkg_config(skald-kafka "Kafka as a transport of Skald" skald rdkafka)
endif()
