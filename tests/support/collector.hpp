// A collector of spans on a real port: it keeps what OTLP/HTTP brings it, or answers as a test says.
#pragma once

#include <skald/testing/wait_until.hpp>

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <deque>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <httplib.h>

namespace skald::test {

class collector
{
public:
    collector()
    {
        server_.Post("/v1/traces", [this](httplib::Request const& request, httplib::Response& answer) {
            std::lock_guard const lock{mutex_};
            ++requests_;
            keep(request.body);
            if (!next_.empty()) {
                answer.status = next_.front();
                next_.pop_front();
                return;
            }
            auto const read = nlohmann::json::parse(request.body);
            for (auto const& resource : read["resourceSpans"])
                for (auto const& scope : resource["scopeSpans"])
                    for (auto span : scope["spans"]) {
                        span["service"] = resource["resource"]["attributes"][0]["value"]["stringValue"];
                        spans_.push_back(std::move(span));
                    }
            answer.set_content("{}", "application/json");
        });
        port_ = server_.bind_to_any_port("127.0.0.1");
        thread_ = std::thread{[this] { server_.listen_after_bind(); }};
        while (!server_.is_running()) std::this_thread::yield();
    }
    ~collector()
    {
        server_.stop();
        thread_.join();
    }

    std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }

    /// The statuses of the next answers; then 200 again.
    void answer_next(std::deque<int> statuses)
    {
        std::lock_guard const lock{mutex_};
        next_ = std::move(statuses);
    }

    int requests() const
    {
        std::lock_guard const lock{mutex_};
        return requests_;
    }

    /// What was accepted, each with its `service`.
    std::vector<nlohmann::json> spans() const
    {
        std::lock_guard const lock{mutex_};
        return spans_;
    }

    std::vector<std::string> names() const
    {
        std::vector<std::string> all;
        for (auto const& span : spans()) all.push_back(span["name"]);
        return all;
    }

    bool has_got(std::size_t count) const
    {
        return testing::wait_until([&] { return spans().size() >= count; });
    }

private:
    /// For scripts/traces.sh, which holds the bytes against the official definitions.
    static void keep(std::string const& body)
    {
        if (auto const* file = std::getenv("SKALD_TEST_OTLP_FILE")) std::ofstream{file, std::ios::app} << body << '\n';
    }

    httplib::Server server_;
    int port_{};
    std::thread thread_;
    mutable std::mutex mutex_;
    std::deque<int> next_;
    std::vector<nlohmann::json> spans_;
    int requests_{};
};

}  // namespace skald::test
