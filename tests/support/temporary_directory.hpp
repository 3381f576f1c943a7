// A directory for one test, which goes with all that is in it.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace skald::test {

class temporary_directory
{
public:
    temporary_directory()
    {
        auto pattern = (std::filesystem::temp_directory_path() / "skald-directory-XXXXXX").string();
        REQUIRE(::mkdtemp(pattern.data()) != nullptr);
        path_ = pattern;
    }
    ~temporary_directory() { std::filesystem::remove_all(path_); }
    temporary_directory(temporary_directory const&) = delete;
    temporary_directory& operator=(temporary_directory const&) = delete;

    std::filesystem::path const& path() const { return path_; }

private:
    std::filesystem::path path_;
};

}  // namespace skald::test
