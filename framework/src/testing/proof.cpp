#include <skald/testing/proof.hpp>

namespace skald::testing {

std::size_t proof::schedules() const
{
    std::size_t all = 0;
    for (auto const& [kind, count] : by_kind_) all += count.run;
    return all;
}

std::string proof::report() const
{
    auto const seconds = std::to_string(time_.count() / 1000) + '.' + std::to_string(time_.count() % 1000 / 100) + " s";
    auto text = std::to_string(schedules()) + " schedules in " + seconds +
                (passed() ? ": every one left behind what it should" : ": one did not leave behind what it should");
    // By what disturbed it, or else by its way: that names a step, and the point in it.
    auto const disturbed = failed_schedule_.find("; ");
    if (!passed()) text += ": " + failed_schedule_.substr(disturbed == std::string::npos ? 0 : disturbed + 2);
    text += '\n';
    for (auto const& [kind, count] : by_kind_) {
        text += "  " + kind + ": " + std::to_string(count.run);
        if (count.not_met > 0) text += " (" + std::to_string(count.not_met) + " in which that point was not reached)";
        text += '\n';
    }
    if (passed()) return text;
    text += "\nschedule: " + failed_schedule_ + '\n' + failure_;
    if (!failure_.ends_with('\n')) text += '\n';
    if (!difference_.empty()) text += "\n- is missing, + should not be there:\n" + difference_;
    if (!cause_.empty()) text += "\ncause: " + cause_ + '\n';
    return text + "\nalone: {.only = \"" + failed_schedule_ + "\"}, or SKALD_TESTING_ONLY='" + failed_schedule_ + "'\n";
}

}  // namespace skald::testing
