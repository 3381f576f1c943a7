// The failpoints of a program that runs, and what it has passed of them.
#pragma once

#include <map>
#include <string>

#include "support/service_process.hpp"

namespace skald::crash {

/// The file from which the programs of a place read their failpoints, and the one to which they write their hits.
class armament
{
public:
    armament();
    ~armament();
    armament(armament const&) = delete;
    armament& operator=(armament const&) = delete;

    /// What makes a program read the one file and write the other.
    void add_to(test::environment& variables) const;

    /// A new program, new counts, an empty trace.
    void arm(std::string const& text);

    /// No fault from here on; the trace stays.
    void disarm() { rearm(""); }

    /// A new program, and new counts; the trace stays.
    void rearm(std::string const& text);

    /// How often each point was hit since the last arm().
    std::map<std::string, unsigned> hits() const;

    /// Whether the armed fault happened.
    bool sprang() const;

private:
    std::string program_, trace_;
    unsigned generation_{};
};

/// Whether every thread of it is stopped.
bool is_stopped(pid_t pid);

}  // namespace skald::crash
