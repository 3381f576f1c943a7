#include "customer.hpp"

#include <chrono>

#include "support/raw_http.hpp"

namespace skald::crash {
namespace {

using namespace std::chrono_literals;

bool is_final(int status)
{
    return status == 202 || (status >= 400 && status < 500 && status != 409);
}

}  // namespace

customer::customer(shop_system const& shop, std::string key, std::string body)
    : shop_{shop}, key_{std::move(key)}, body_{std::move(body)}, thread_{
                                                                     [this](std::stop_token const& stop) { run(stop); }}
{}

void customer::run(std::stop_token const& stop)
{
    for (bool other = false; !stop.stop_requested() && !answer(); other = !other) {
        // As behind a load balancer: a request that got no response goes to the other process next.
        auto told = ask(other ? shop_.standin_port() : shop_.port());
        bool const was_heard = told.status != 0, is_promise = told.is_promise();
        {
            std::lock_guard const lock{mutex_};
            history_.push_back(std::move(told));
        }
        // Before another try could make it a lie, the harness checks whether it is one.
        while (is_promise && !stop.stop_requested() && looked_at_ < history().size()) std::this_thread::sleep_for(5ms);
        // As a client would; also, a client that is refused at once must not fill the history while a process is away.
        if (!was_heard) std::this_thread::sleep_for(20ms);
        else if (!answer()) std::this_thread::sleep_for(100ms);
    }
}

heard customer::ask(std::uint16_t port) const
try {
    test::raw_client client{port};
    timeval const patience{.tv_sec = 1, .tv_usec = 500'000};
    ::setsockopt(client.handle(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    auto const answer =
        client.ask("POST /orders HTTP/1.1\r\nHost: shop\r\nContent-Type: application/json\r\nIdempotency-Key: " + key_ +
                   "\r\nContent-Length: " + std::to_string(body_.size()) + "\r\n\r\n" + body_);
    return {answer.status, answer.body};
}
catch (std::exception const& error) {
    return {0, error.what()};
}

std::optional<heard> customer::answer() const
{
    std::lock_guard const lock{mutex_};
    if (history_.empty() || !is_final(history_.back().status)) return std::nullopt;
    return history_.back();
}

std::vector<heard> customer::history() const
{
    std::lock_guard const lock{mutex_};
    return history_;
}

heard customer::ask_again() const
{
    auto told = ask(shop_.port());
    for (int tries = 1; tries < 400 && !is_final(told.status); ++tries) {
        std::this_thread::sleep_for(50ms);  // a 409 or 503 calls for a pause; a process that was ended is coming back
        told = ask(shop_.port());
    }
    return told;
}

}  // namespace skald::crash
