// `skald new`: a project that builds: a saga over the named services, its tests, and the proof that it happens once.
#include "commands.hpp"
#include "new_project.hpp"

#include "core/shell_word.hpp"

#include <skald/errors.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <unistd.h>

namespace skald::tools {
namespace {

namespace fs = std::filesystem;

void write_file(fs::path const& path, std::string const& text)
{
    fs::create_directories(path.parent_path());
    std::ofstream to{path, std::ios::binary};
    to << text << std::flush;
    if (!to) throw std::system_error{errno, std::generic_category(), path.string() + " could not be written"};
}

/// A folder beside the one that is to be, so that nobody ever sees half a project. Removed unless it was moved there.
class unfinished_folder
{
public:
    explicit unfinished_folder(fs::path const& beside)
        : path{fmt::format("{}.{}.unfinished", beside.string(), ::getpid())}
    {
        if (!fs::create_directory(path))
            throw std::runtime_error{path.string() + " is left of an earlier `skald new`: remove it"};
    }
    unfinished_folder(unfinished_folder const&) = delete;
    unfinished_folder& operator=(unfinished_folder const&) = delete;
    ~unfinished_folder()
    {
        std::error_code ignored;
        fs::remove_all(path, ignored);
    }
    fs::path const path;
};

int make(std::string const& where, std::vector<std::string> const& services, output const& out)
{
    auto folder = fs::path{where}.lexically_normal();
    if (!folder.has_filename()) folder = folder.parent_path();  // "shop/"
    new_project const project{folder.filename().string(), services};
    check_names(project);
    std::error_code unknown;
    if (fs::symlink_status(folder, unknown).type() != fs::file_type::not_found)
        return out.refuse(folder.string() + " is there already, and nothing is written over it: take another name");
    auto const parent = folder.has_parent_path() ? folder.parent_path() : fs::path{"."};
    if (!fs::is_directory(parent, unknown))
        return out.refuse(fmt::format("there is no folder {}: make it first", parent.string()));

    auto const files = files_of(project);
    unfinished_folder const made{folder};
    auto names = nlohmann::json::array();
    for (auto const& [path, text] : files) {
        write_file(made.path / path, text);
        names.push_back(path.string());
    }
    fs::rename(made.path, folder);
    out.tell(fmt::format("{} is made, with {} files. Its README.md says how to build, test and run it:\n"
                         "  cd {} && cmake -S . -B build && cmake --build build --parallel",
                         folder.string(), files.size(), core::shell_word(folder.string())),
             {{"project", project.name}, {"folder", folder.string()}, {"files", names}});
    return 0;
}

}  // namespace

void add_new_command(CLI::App& app, output& out, choice& chosen)
{
    auto* const command = app.add_subcommand(
        "new",
        "make a project: a saga over the named services that builds, with tests and the proof that it happens once");
    auto const where = std::make_shared<std::string>();
    command->add_option("project", *where, "the folder to make; its last part is the project's name")->required();
    auto const services = std::make_shared<std::vector<std::string>>();
    command
        ->add_option("--services", *services,
                     "the services, in the order in which the saga visits them, such as orders,payments,shipping; the "
                     "first has the HTTP entry, the last has the pivot")
        ->required()
        ->delimiter(',');
    out.add_flag(*command);
    command->callback(
        [=, &out, &chosen] { chosen = [where, services, &out] { return make(*where, *services, out); }; });
}

}  // namespace skald::tools
