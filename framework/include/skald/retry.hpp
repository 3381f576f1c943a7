// How often, and how far apart, a step that throws is tried.
#pragma once

#include <chrono>

namespace skald {

/// The wait before a try is uniform between 0 and a ceiling that doubles from `first` to `longest` (full jitter).
/// Attempts are counted in the database, together with the message that tries again.
struct retry
{
    int attempts_max{8};                     // from 1; then compensation, or parked where there is no way back
    std::chrono::milliseconds first{200};    // the ceiling of the first wait
    std::chrono::milliseconds longest{30'000};
};

}  // namespace skald
