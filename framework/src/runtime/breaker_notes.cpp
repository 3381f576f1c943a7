#include "runtime/breaker_notes.hpp"

#include <algorithm>
#include <exception>

namespace skald::runtime {
namespace {

using namespace std::chrono_literals;

// Who looks takes a process that says nothing for dead.
constexpr auto said_again_after = 10s;

}  // namespace

void breaker_notes::update(std::vector<dependency_state> const& all)
{
    auto const now = clock::now();
    for (auto const& one : all) {
        auto const was = written_.find(one.name);
        bool const is_known = was == written_.end()
                                  ? one.status.state == core::breaker_state::closed
                                  : was->second.state == one.status.state && now - was->second.at < said_again_after;
        if (!is_known) write(one, now);
    }
}

void breaker_notes::write(dependency_state const& one, clock::time_point now)
{
    auto const& s = one.status;
    ports::started_steps::breaker b{one.name, std::string{core::to_string(s.state)}, s.why, s.ok, s.failed, s.slow, {}};
    if (s.tries_at)
        b.tries_in = std::max(0ms, std::chrono::duration_cast<std::chrono::milliseconds>(*s.tries_at - now));
    table_.note(owner_, b);
    if (s.state == core::breaker_state::closed) written_.erase(one.name);
    else written_[one.name] = {s.state, now};
}

void breaker_notes::forget_all() noexcept
try {
    for (auto const& one : written_) table_.note(owner_, {one.first, "closed", {}, 0, 0, 0, {}});
}
catch (std::exception const&) {  // whoever looks finds a process that says nothing
}

}  // namespace skald::runtime
