// The live display: on a terminal a block of a few lines that is redrawn in place, elsewhere a line now and then.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace skald::rig {

struct progress_figures
{
    std::string phase;
    int orders{};
    int accepted{};
    int completed{};
    int compensated{};
    int running{};
    int sent_twice{};
    int replayed{};
    int kills{};
    int asked_again{};

    bool operator==(progress_figures const&) const = default;
};

/// Threads: one. Nothing else may write to the standard output meanwhile.
class progress
{
public:
    progress();
    /// Leaves the last block where it is and shows the cursor again.
    ~progress();
    progress(progress const&) = delete;
    progress& operator=(progress const&) = delete;

    /// May be called at any rate: it draws at most ten times a second, and prints at most once a second.
    void show(progress_figures const& figures);

    /// A line that stays.
    void note(std::string const& line);

    /// Draws the last figures if they are not there yet; what is printed afterwards comes below.
    void finish();

    std::chrono::steady_clock::duration elapsed() const { return clock::now() - started_; }

private:
    using clock = std::chrono::steady_clock;

    void draw();
    void print_line();
    std::vector<std::string> block(std::size_t width) const;
    std::string bar(std::size_t width) const;
    std::string styled(char const* style, std::string const& text) const;

    bool is_terminal_;
    bool has_colours_;
    bool finished_{};
    clock::time_point started_{clock::now()};
    clock::time_point last_shown_{};
    progress_figures figures_;
    progress_figures shown_;
    std::size_t lines_drawn_{};
};

}  // namespace skald::rig
