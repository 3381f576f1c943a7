// How long one page waits for databases that say nothing. A database that is frozen, and not away, takes no connection
// and answers no statement, but refuses neither: each would cost the page its whole bound, one after the other.
#pragma once

#include <algorithm>
#include <chrono>

namespace skald::console {

/// Of the page that this thread makes, for as long as it lives: all that the page asks shares the time.
class patience
{
public:
    using milliseconds = std::chrono::milliseconds;

    explicit patience(milliseconds time) : before_{until_} { until_ = clock::now() + time; }
    ~patience() { until_ = before_; }
    patience(patience const&) = delete;
    patience& operator=(patience const&) = delete;

    /// What is left, at most `most`; and enough for one that is well, however long the others took.
    static milliseconds left(milliseconds most)
    {
        constexpr milliseconds enough{500};
        if (until_ == clock::time_point{}) return most;
        auto const rest = std::chrono::duration_cast<milliseconds>(until_ - clock::now());
        return std::min(most, std::max(rest, enough));
    }

private:
    using clock = std::chrono::steady_clock;

    clock::time_point before_;
    static thread_local inline clock::time_point until_{};  // no page: without a bound
};

}  // namespace skald::console
