// `skald bench` is a program of its own, beside this one: it needs what an operator has no use for.
#include "commands.hpp"

#include <skald/errors.hpp>

#include <CLI/CLI.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

namespace skald::tools {
namespace {

/// Replaces this process by skald-bench with these words; returns only by throwing configuration_error.
[[noreturn]] void become_bench(std::vector<std::string> words)
{
    auto const program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "skald-bench";
    words.insert(words.begin(), program.string());
    std::vector<char*> pointers;
    pointers.reserve(words.size() + 1);
    for (auto& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    ::execv(program.c_str(), pointers.data());
    throw configuration_error{
        program.string() + " is not there or can't be run: it is built from Skald's checkout with "
                           "-DSKALD_BUILD_BENCH=ON (cmake --build build --target skald_bench), and is not installed; "
                           "or run bench/bench.sh there"};
}

}  // namespace

void add_bench_command(CLI::App& app, choice& chosen)
{
    auto* const command = app.add_subcommand("bench", "measure Skald on this machine; `skald bench --help` lists what");
    command->allow_extras()->prefix_command()->set_help_flag();
    command->callback([=, &chosen] { chosen = [command]() -> int { become_bench(command->remaining()); }; });
}

}  // namespace skald::tools
