// Files that settings name: certificates, keys.
#pragma once

#include <stdexcept>
#include <string>

namespace skald::core {

/// Its text follows the file's name: "can't be read: Permission denied".
class file_not_read : public std::runtime_error
{
public:
    /// For good: what is there can't be read, no matter how often that is tried.
    file_not_read(std::string const& why, bool is_for_good) : std::runtime_error{why}, for_good{is_for_good} {}
    bool for_good;
};

/// The contents of a regular file of at most 1 MiB. Never blocks: a pipe without a writer, a directory or a device is
/// refused. Throws file_not_read.
std::string read_regular_file(std::string const& name);

}  // namespace skald::core
