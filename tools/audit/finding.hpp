// What an audit found wrong: one row for people, one object for programs.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace skald::audit {

struct finding
{
    std::string kind;     // "missing_there"
    std::string service;  // in whose database to look, and run the command
    std::string scope;
    std::string key;
    std::string what;   // the step, the member, the message: what else names it; empty if nothing does
    std::string since;  // the latest moment that is known of it; empty if none is
    std::string means;
    std::string why;                              // it matters
    std::string command;                          // that looks at it, or repairs it
    std::optional<std::string> ours{}, theirs{};  // of a member that differs
};

/// All are counted, and the first ones kept: an audit that finds a million wrong has found one cause.
class findings
{
public:
    explicit findings(std::size_t kept_max) : kept_max_{kept_max} {}

    void add(finding one)
    {
        ++counts_[one.kind];
        ++total_;
        if (kept_.size() < kept_max_) kept_.push_back(std::move(one));
    }

    std::size_t total() const { return total_; }
    std::map<std::string, std::size_t> const& counts() const { return counts_; }
    std::vector<finding> const& kept() const { return kept_; }

private:
    std::size_t kept_max_;
    std::size_t total_{};
    std::map<std::string, std::size_t> counts_;
    std::vector<finding> kept_;
};

}  // namespace skald::audit
