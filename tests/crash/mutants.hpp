// The mutants, and the runs that must notice them.
#pragma once

#include <string>
#include <vector>

namespace skald::crash {

/// A fault that is planted in the sources: mutants/NAME.patch.
struct mutant
{
    std::string name;
    std::string run;     // by name
    std::string breaks;  // the invariant that must not hold in it
};

/// What the heads of the patches say, in the order of their names; without those that a unit test notices.
/// Throws: std::runtime_error where one is not built, or has no run or no invariant.
std::vector<mutant> read_mutants();

/// The library that brings the fault into a process that loads it before all others.
std::string library_of(std::string const& mutant);

}  // namespace skald::crash
