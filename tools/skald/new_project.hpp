// The files of a new project: a saga over some services, with its tests. Made of the templates in new/, in which
// {{name}} stands for what differs.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace skald::tools {

/// What a project is made of: its name, and its services in the order in which the saga visits them.
struct new_project
{
    std::string name;
    std::vector<std::string> services;
};

/// Throws configuration_error, which says what is allowed.
void check_names(new_project const& project);

/// Each file's path within the project, and its text. Expects names that check_names() accepts.
std::vector<std::pair<std::filesystem::path, std::string>> files_of(new_project const& project);

}  // namespace skald::tools
