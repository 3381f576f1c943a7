#include "rig/progress.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "rig/text.hpp"

namespace skald::rig {
namespace {

using namespace std::chrono_literals;

constexpr auto between_frames = 100ms;
constexpr auto between_lines = 1s;
constexpr auto between_equal_lines = 10s;
constexpr std::size_t cell_width = 22;
constexpr std::size_t bar_max = 60;

constexpr char const* hide_cursor = "\x1b[?25l";
constexpr char const* show_cursor = "\x1b[?25h";
constexpr char const* clear_to_end_of_line = "\x1b[K";
constexpr char const* clear_below = "\x1b[J";

constexpr char const* bold = "\x1b[1m";
constexpr char const* dim = "\x1b[2m";
constexpr char const* green = "\x1b[32m";
constexpr char const* normal = "\x1b[0m";

bool environment_has(char const* name)
{
    char const* const value = std::getenv(name);
    return value != nullptr && *value != '\0';
}

bool output_is_terminal()
{
    return ::isatty(STDOUT_FILENO) == 1 && environment_has("TERM") && std::string_view{std::getenv("TERM")} != "dumb";
}

struct terminal_size
{
    std::size_t columns{80};
    std::size_t rows{24};
};

terminal_size size_of_terminal()
{
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
    return {size.ws_col, size.ws_row};
}

/// In one call where the terminal takes it, so that no half-drawn block is ever seen.
void write_out(std::string_view text)
{
    while (!text.empty()) {
        auto const size = ::write(STDOUT_FILENO, text.data(), text.size());
        if (size < 0 && errno != EINTR) return;
        if (size > 0) text.remove_prefix(static_cast<std::size_t>(size));
    }
}

}  // namespace

progress::progress() : is_terminal_{output_is_terminal()}, has_colours_{is_terminal_ && !environment_has("NO_COLOR")} {}

progress::~progress()
{
    finish();
}

void progress::show(progress_figures const& figures)
{
    figures_ = figures;
    finished_ = false;
    auto const since = clock::now() - last_shown_;
    if (is_terminal_ && since >= between_frames) draw();
    if (!is_terminal_ && since >= (figures_ == shown_ ? between_equal_lines : between_lines)) print_line();
}

void progress::note(std::string const& line)
{
    std::string text;
    if (lines_drawn_ > 0) text = fmt::format("\x1b[{}A\r{}", lines_drawn_, clear_below);
    bool const redraw = lines_drawn_ > 0;
    lines_drawn_ = 0;
    write_out(fmt::format("{}{:>6}  {}\n", text, minutes(elapsed()), line));
    if (redraw) draw();
}

void progress::finish()
{
    if (finished_ || last_shown_ == clock::time_point{}) return;
    if (is_terminal_) {
        draw();
        write_out(show_cursor);
        lines_drawn_ = 0;
    }
    else if (figures_ != shown_) {
        print_line();
    }
    finished_ = true;
}

void progress::draw()
{
    auto const terminal = size_of_terminal();
    auto lines = block(terminal.columns - 1);
    lines.resize(std::min(lines.size(), std::max<std::size_t>(terminal.rows, 2) - 1));
    std::string frame = hide_cursor;
    if (lines_drawn_ > 0) frame += fmt::format("\x1b[{}A\r", lines_drawn_);
    for (auto const& line : lines) frame += line + clear_to_end_of_line + "\n";
    write_out(frame + clear_below);
    lines_drawn_ = lines.size();
    last_shown_ = clock::now();
    shown_ = figures_;
}

void progress::print_line()
{
    write_out(fmt::format("{:>6}  {}: {} of {} accepted, {} completed, {} compensated, {} running; {} sent twice, {} "
                          "replayed, {} kills\n",
                          minutes(elapsed()), figures_.phase, grouped(figures_.accepted), grouped(figures_.orders),
                          grouped(figures_.completed), grouped(figures_.compensated), grouped(figures_.running),
                          grouped(figures_.sent_twice), grouped(figures_.replayed), figures_.kills));
    last_shown_ = clock::now();
    shown_ = figures_;
}

/// Lines of at most `width` columns. Styles take no columns, so a line is cut before it is styled.
std::vector<std::string> progress::block(std::size_t width) const
{
    std::string const time = minutes(elapsed());
    std::string title = fmt::format("  {}", figures_.phase).substr(0, width);
    std::vector<std::string> lines{"", styled(bold, title)};
    if (title.size() + time.size() + 2 <= width) lines.back() += "  " + styled(dim, time);
    lines.push_back(bar(width));
    std::pair<char const*, int> const cells[]{
        {"accepted", figures_.accepted}, {"completed", figures_.completed},     {"compensated", figures_.compensated},
        {"running", figures_.running},   {"sent twice", figures_.sent_twice},   {"replayed", figures_.replayed},
        {"kills", figures_.kills},       {"asked again", figures_.asked_again},
    };
    std::size_t const a_row = std::clamp<std::size_t>(width / cell_width, 1, 4);
    for (std::size_t i = 0; i < std::size(cells); ++i) {
        if (i % a_row == 0) lines.emplace_back();
        auto const [label, value] = cells[i];
        if (width < cell_width) lines.back() = fmt::format("{} {}", label, grouped(value)).substr(0, width);
        else lines.back() += fmt::format("  {} {:>7}", styled(dim, fmt::format("{:<12}", label)), grouped(value));
    }
    return lines;
}

std::string progress::bar(std::size_t width) const
{
    if (width < 20) return {};
    auto const total = static_cast<std::size_t>(std::max(figures_.orders, 1));
    auto const ended = std::min(static_cast<std::size_t>(figures_.completed + figures_.compensated), total);
    auto const accepted = std::clamp(static_cast<std::size_t>(figures_.accepted), ended, total);
    auto const columns = std::min(width - 11, bar_max);
    auto const done = columns * ended / total;
    auto const begun = columns * accepted / total - done;
    return fmt::format("  [{}{}{}] {:>3} %", styled(green, std::string(done, '#')), std::string(begun, '-'),
                       std::string(columns - done - begun, ' '), 100 * ended / total);
}

std::string progress::styled(char const* style, std::string const& text) const
{
    return has_colours_ ? style + text + normal : text;
}

}  // namespace skald::rig
