// A folder with key files, for the length of a test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace skald::test {

class key_files
{
public:
    key_files()
    {
        auto pattern = (std::filesystem::temp_directory_path() / "skald-keys-XXXXXX").string();
        if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error{"no folder for keys"};
        path_ = pattern;
    }
    ~key_files() { std::filesystem::remove_all(path_); }
    key_files(key_files const&) = delete;
    key_files& operator=(key_files const&) = delete;

    /// Its name.
    std::string add(std::string const& name, std::string const& content, unsigned mode = 0640) const
    {
        auto const file = path_ / name;
        std::ofstream{file} << content;
        std::filesystem::permissions(file, std::filesystem::perms{mode});
        return file.string();
    }
    std::string path() const { return path_.string(); }

private:
    std::filesystem::path path_;
};

}  // namespace skald::test
