// A whole worker in the test's own process, over the servers of DATABASE_URL and AMQP_URL.
#pragma once

#include "support/amqp_hands.hpp"
#include "support/database.hpp"
#include "support/required.hpp"

#include <skald/skald.hpp>

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace skald::test {

/// A worker on a thread of its own, drained when this is destroyed.
class running_service
{
public:
    explicit running_service(std::string const& name) : db{name}, service_{name}, queue_{"skald." + name}
    {
        // The database is new; the queues may be left over from an earlier test, with what it did not wait for.
        for (auto const* part : {".database", ""}) forget(part);
    }
    ~running_service()
    {
        if (!worker_) return;
        worker_->stop();
        thread_.join();
    }
    running_service(running_service const&) = delete;
    running_service& operator=(running_service const&) = delete;

    template <class Definition, class Handle, class Step>
    void host(Definition const& saga, Handle const& handle, Step step)
    {
        using namespace std::chrono_literals;
        service_.host(saga, handle, std::move(step), {.retry = {.attempts_max = 2, .first = 1ms, .longest = 1ms}});
    }
    template <class Body, class Handler>
    void on(std::string name, Handler handler, skald::message_options options)
    {
        using namespace std::chrono_literals;
        options.run.retry = {.attempts_max = 3, .first = 1ms, .longest = 1ms};
        forget(".on." + name);
        service_.on<Body>(std::move(name), std::move(handler), options);
    }
    void keep_bodies(detail::body_store_maker make) { service_.bodies(std::move(make)); }
    void start(std::function<void(skald::config&)> const& change = {})
    {
        auto made = settings(db.url());
        if (change) change(made);
        worker_.emplace(std::move(service_), std::move(made));
        // From then on its queues are there.
        std::promise<void> consumes;
        thread_ = std::thread{[this, &consumes] { worker_->run([&] { consumes.set_value(); }); }};
        consumes.get_future().wait();
    }

    database const db;

private:
    void forget(std::string const& part) const
    {
        amqp_hands{amqp_place{required("AMQP_URL")}}.delete_queue(queue_ + part);
    }

    static skald::config settings(std::string const& url)
    {
        skald::config made;
        made.database_url = url;
        made.amqp_url = required("AMQP_URL");
        made.lanes = 1;
        made.migrate = false;
        made.log_level = "error";
        return made;
    }

    skald::service service_;
    std::string const queue_;
    std::optional<skald::worker> worker_;
    std::thread thread_;
};

}  // namespace skald::test
