// Files that settings name: certificates, keys.
#pragma once

#include <stdexcept>
#include <string>

namespace skald::core {

/// Its text goes behind the file's name: "can't be read: Permission denied".
class file_not_read : public std::runtime_error
{
public:
    /// For good: what is there is not what can be read, whenever that is tried.
    file_not_read(std::string const& why, bool is_for_good) : std::runtime_error{why}, for_good{is_for_good} {}
    bool for_good;
};

/// The whole of a regular file of at most 1 MiB. Never waits: a pipe that nobody writes to, a folder, a device are
/// refused. Throws file_not_read.
std::string read_regular_file(std::string const& name);

}  // namespace skald::core
