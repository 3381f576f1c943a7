// A file with some content, for the length of a test.
#pragma once

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace skald::test {

class temporary_file
{
public:
    explicit temporary_file(std::string const& content)
    {
        auto pattern = (std::filesystem::temp_directory_path() / "skald-settings-XXXXXX").string();
        int const file = ::mkstemp(pattern.data());
        REQUIRE(file >= 0);
        std::fclose(::fdopen(file, "w"));
        path_ = pattern;
        std::ofstream{path_} << content;
    }
    ~temporary_file() { std::filesystem::remove(path_); }
    temporary_file(temporary_file const&) = delete;
    temporary_file& operator=(temporary_file const&) = delete;

    std::string const& path() const { return path_; }

private:
    std::string path_;
};

}  // namespace skald::test
