// Requests at a constant rate, and how late the response to each was.
#pragma once

#include <chrono>
#include <cstddef>

namespace skald_bench {

/// When requests are due at a constant rate, whatever happened to those before. Latency is counted from then and not
/// from when the request was sent: a client that waits for a stalled server sends the next ones late, and leaving that
/// out would charge the stall to one request instead of to all that had to wait (coordinated omission).
template <class Clock>
class open_loop
{
public:
    open_loop(typename Clock::time_point start, double per_second) : start_{start}, per_second_{per_second} {}

    typename Clock::time_point due(std::size_t request) const
    {
        std::chrono::duration<double> const after{static_cast<double>(request) / per_second_};
        return start_ + std::chrono::duration_cast<typename Clock::duration>(after);
    }

    double latency_ms(std::size_t request, typename Clock::time_point ended) const
    {
        return std::chrono::duration<double, std::milli>(ended - due(request)).count();
    }

private:
    typename Clock::time_point start_;
    double per_second_;
};

}  // namespace skald_bench
