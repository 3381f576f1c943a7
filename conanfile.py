"""Conan's recipe. `conan create .` builds the library, and a program against it in packaging/conan."""
import pathlib
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy
from conan.tools.gnu import PkgConfigDeps
from conan.tools.system.package_manager import Apt


class Skald(ConanFile):
    name = "skald"
    description = "Sagas whose every step happens exactly once in effect, on PostgreSQL"
    license = "BSL-1.0"
    topics = ("saga", "outbox", "idempotency", "postgresql", "rabbitmq", "kafka")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {
        "shared": [True, False],
        "redis": [True, False],
        "s3": [True, False],
        "kafka": [True, False],
        "tools": [True, False],
        "system": [True, False],  # what it is built on comes from Debian's packages, and not from a remote
    }
    default_options = {"shared": False, "redis": False, "s3": False, "kafka": False, "tools": False, "system": False}
    exports_sources = ("CMakeLists.txt", "LICENSE", "cmake/*", "framework/*", "sql/*", "tools/*")
    test_package_folder = "packaging/conan"

    def set_version(self):
        text = (pathlib.Path(self.recipe_folder) / "CMakeLists.txt").read_text()
        self.version = re.search(r"project\(skald VERSION ([0-9.]+)", text)[1]

    def requirements(self):
        if self.options.system:
            return
        self.requires("libpqxx/[>=7.9 <8]", transitive_headers=True, transitive_libs=True)
        self.requires("nlohmann_json/[>=3.11 <4]", transitive_headers=True)
        for what in ("boost/[>=1.81 <2]", "fmt/[>=9 <12]", "libpq/[>=14]", "openssl/[>=3 <4]", "prometheus-cpp/[>=1.1 <2]",
                     "rabbitmq-c/[>=0.13 <1]"):
            self.requires(what)
        for option, what in (("redis", "hiredis/[>=1 <2]"), ("s3", "libcurl/[>=7.88 <9]"), ("kafka", "librdkafka/[>=2 <3]"),
                             ("tools", "cli11/[>=2 <3]")):
            if self.options.get_safe(option):
                self.requires(what)

    def system_requirements(self):
        if not self.options.system:
            return
        names = ["pkg-config", "libpq-dev", "libpqxx-dev", "librabbitmq-dev", "libssl-dev", "libfmt-dev", "nlohmann-json3-dev",
                 "prometheus-cpp-dev"]
        for option, name in (("redis", "libhiredis-dev"), ("s3", "libcurl4-openssl-dev"), ("kafka", "librdkafka-dev"),
                             ("tools", "libcli11-dev")):
            if self.options.get_safe(option):
                names.append(name)
        apt = Apt(self)
        apt.install(names)
        apt.install_substitutes(["libboost1.83-dev"], ["libboost1.81-dev"])

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("Skald runs on Linux")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for option in ("redis", "s3", "kafka"):
            toolchain.cache_variables[f"SKALD_{option.upper()}"] = bool(self.options.get_safe(option))
        toolchain.cache_variables["SKALD_BUILD_TOOLS"] = bool(self.options.tools)
        for part in ("TESTS", "EXAMPLES", "BENCH", "REFERENCE"):
            toolchain.cache_variables[f"SKALD_BUILD_{part}"] = False
        toolchain.generate()
        CMakeDeps(self).generate()
        PkgConfigDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, pathlib.Path(self.package_folder) / "licenses")
        CMake(self).install()

    def package_info(self):
        # find_package(skald) reads Skald's own package file, which finds what the library is built on.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/skald"]
        self.cpp_info.libs = ["skald"]
