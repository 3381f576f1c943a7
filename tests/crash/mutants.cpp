#include "mutants.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>

namespace skald::crash {
namespace {

std::string word_after(std::string_view what, std::filesystem::path const& patch)
{
    std::ifstream file{patch};
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(what)) return line.substr(what.size());
    throw std::runtime_error{patch.string() + " has no line '" + std::string{what} + "...'"};
}

}  // namespace

std::vector<mutant> read_mutants()
{
    std::vector<mutant> all;
    for (auto const& entry : std::filesystem::directory_iterator{SKALD_MUTANTS}) {
        auto const& file = entry.path();
        if (file.extension() != ".patch") continue;
        auto const name = file.stem().string();
        auto const run = word_after("Noticed by: ", file);
        if (run.starts_with("tests/unit/")) continue;  // mutants/CMakeLists.txt has these
        // The loader would only warn, and the service run without the fault.
        if (!std::filesystem::exists(library_of(name)))
            throw std::runtime_error{"the mutant " + name + " is not built: configure and build again"};
        all.push_back({name, run, word_after("Breaks: ", file)});
    }
    if (all.empty()) throw std::runtime_error{"no mutants in " SKALD_MUTANTS};
    std::ranges::sort(all, {}, &mutant::name);
    return all;
}

std::string library_of(std::string const& mutant)
{
    return SKALD_BUILT_MUTANTS "/libmutant_" + mutant + ".so";
}

}  // namespace skald::crash
