# `cmake --install`: the library, its public headers, and a package for `find_package(skald)`.
include(CMakePackageConfigHelpers)

set(skald_package ${CMAKE_INSTALL_LIBDIR}/cmake/skald)
set(skald_package_made ${PROJECT_BINARY_DIR}/skald-package)

if(SKALD_FAILPOINTS)
    install(CODE "message(FATAL_ERROR \"A build with failpoints is for tests: configure with -DSKALD_FAILPOINTS=OFF to install\")")
endif()
install(TARGETS skald skald_testing EXPORT skaldTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET skald_redis)
    install(TARGETS skald_redis EXPORT skaldTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET skald_s3)
    install(TARGETS skald_s3 EXPORT skaldTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET skald_kafka)
    install(TARGETS skald_kafka EXPORT skaldTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
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
