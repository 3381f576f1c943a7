# What Skald is built on. Also installed: an outside project finds the same things through skaldConfig.cmake.
include(CMakeFindDependencyMacro)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
# libpqxx 6 has no CMake package; pkg-config knows both 6 and 7.
pkg_check_modules(libpqxx REQUIRED IMPORTED_TARGET GLOBAL libpqxx>=6.4)
pkg_check_modules(libpq REQUIRED IMPORTED_TARGET GLOBAL libpq>=14)
if(skald_is_shared)  # set where shared libraries were installed: the rest they have found themselves
    return()
endif()
find_package(OpenSSL 3 REQUIRED)
# Boost for its headers only (Asio, Beast), so no components. By its own package file: CMake has dropped its module.
find_package(Boost 1.81 REQUIRED CONFIG)
pkg_check_modules(librabbitmq REQUIRED IMPORTED_TARGET GLOBAL librabbitmq>=0.11)
# Only skald::redis needs it.
pkg_check_modules(hiredis IMPORTED_TARGET GLOBAL hiredis>=0.14)
# Only skald::s3 needs it. 7.88 is the first that signs what S3 wants.
pkg_check_modules(libcurl IMPORTED_TARGET GLOBAL libcurl>=7.88)
# Only skald::kafka needs it.
pkg_check_modules(rdkafka IMPORTED_TARGET GLOBAL rdkafka>=2.0)
# The core alone: its pull and push parts need a web server and curl, and its CMake package would look for them.
pkg_check_modules(prometheus REQUIRED IMPORTED_TARGET GLOBAL prometheus-cpp-core>=1.0)
