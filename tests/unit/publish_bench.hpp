// A publish loop between an outbox and a publisher that do as the test says.
#pragma once

#include "memory/memory_transport.hpp"
#include "runtime/publish_loop.hpp"
#include "runtime/table_source.hpp"
#include "support/event_log.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace skald::test {

using namespace std::chrono_literals;
using ports::publish_status;

inline core::message message_to(std::string destination, std::string id)
{
    core::message m;
    m.destination = std::move(destination);
    m.type = "charge";
    m.id = std::move(id);
    return m;
}

/// The number of the row that message_to("...", "order-7:charge") stands for.
inline std::int64_t number_of(std::string const& id)
{
    return std::stoll(id.substr(id.find('-') + 1));
}

/// A table in memory. As in PostgreSQL's, what is taken is in one open transaction until it is resolved or released.
class table final : public ports::outbox
{
public:
    table() = default;

    /// Another connection to the same table: what one has taken the other passes over.
    explicit table(table& same) : rows{same.rows}, other_{&same} { same.other_ = this; }

private:
    std::map<std::int64_t, row> own_rows_;

public:
    std::map<std::int64_t, row>& rows{own_rows_};
    std::vector<deferral> deferred;
    int takes{};
    int releases{};
    bool in_transaction{};
    std::function<void()> on_take = [] {};
    std::function<void()> on_resolve = [] {};
    bool is_due{true};

    void add(std::int64_t id, int attempts = 0, std::string destination = "payments")
    {
        rows[id] = {id, attempts, message_to(std::move(destination), "order-" + std::to_string(id) + ":charge")};
    }

    std::vector<std::int64_t> ids() const
    {
        std::vector<std::int64_t> left;
        for (auto const& [id, waiting] : rows) left.push_back(id);
        return left;
    }

    std::vector<row> take(std::size_t max) override
    {
        ++takes;
        if (in_transaction) throw std::logic_error{"a batch is still in hand"};
        on_take();
        std::vector<row> due;
        for (auto const& [id, waiting] : rows) {
            if (!is_due || due.size() == max) break;
            if (other_ != nullptr && std::ranges::count(other_->taken_, id) > 0) continue;
            due.push_back(waiting);
            taken_.push_back(id);
        }
        in_transaction = !due.empty();
        return due;
    }

    void resolve(std::vector<std::int64_t> const& confirmed, std::vector<deferral> const& failed) override
    {
        on_resolve();
        if (confirmed.size() < taken_.size()) release();
        taken_.clear();
        in_transaction = false;
        for (auto const id : confirmed) rows.erase(id);
        for (auto const& one : failed)
            if (one.is_unrouted) rows.erase(one.id);
        deferred.insert(deferred.end(), failed.begin(), failed.end());
    }

    void release() noexcept override
    {
        ++releases;
        taken_.clear();
        in_transaction = false;
    }

private:
    std::vector<std::int64_t> taken_;
    table* other_{};
};

/// Says of each message what the test wants; `confirmed` where it says nothing.
class scripted_publisher final : public ports::publisher
{
public:
    std::map<std::int64_t, publish_status> says;
    std::vector<std::int64_t> sent;
    std::vector<core::message> sent_messages;  // the same
    std::string why_not;                       // empty: available
    std::string barred_because;
    int looks{};
    std::function<void()> on_look = [] {};
    std::function<void()> on_publish = [] {};

    bool available() override
    {
        ++looks;
        on_look();
        return why_not.empty();
    }

    std::string last_error() const override { return why_not; }

    void send(std::span<ports::outgoing const> messages, std::chrono::milliseconds) override
    {
        on_publish();
        for (auto const& m : messages) {
            sent.push_back(number_of(m.message.id));
            sent_messages.push_back(m.message);
            auto const it = says.find(sent.back());
            auto const status = it == says.end() ? publish_status::confirmed : it->second;
            auto why = "because of " + std::to_string(sent.back());
            if (status == publish_status::confirmed) why.clear();
            if (status == publish_status::barred && !barred_because.empty()) why = barred_because;
            receipts.push_back({m.row, status, why});
        }
    }

    /// Each receipt with a call of its own, the last one first: their order means nothing.
    std::vector<ports::receipt> collect(std::chrono::milliseconds wait) override
    {
        waits.push_back(wait);
        if (receipts.empty()) return {};
        std::vector<ports::receipt> last{receipts.back()};
        receipts.pop_back();
        return last;
    }

    void interrupt() noexcept override { ++interrupted; }

    std::vector<ports::receipt> receipts;
    std::vector<std::chrono::milliseconds> waits;
    int interrupted{};
};

/// The loop of a table with everything around it.
struct bench
{
    runtime::publish_options options{.batch_max = 10, .defer = {1'000ms, 3'600'000ms}, .pause = {0ms, 0ms}};
    std::chrono::milliseconds poll{1};
    table outbox;
    table* other{};  // another connection
    scripted_publisher publisher;
    std::optional<runtime::table_source> source;
    runtime::stop_flag stop;
    event_log log;

    runtime::publish_loop relay(ports::publisher& to)
    {
        std::vector<std::reference_wrapper<ports::outbox>> outboxes{outbox};
        if (other != nullptr) outboxes.emplace_back(*other);
        source.emplace(poll, std::move(outboxes));
        return {options, *source, to, stop, log, std::mt19937_64{11}};
    }
    runtime::publish_loop relay() { return relay(publisher); }

    /// Runs until it has looked `times` times at its publisher, and the once more that every relay does at its end.
    void run(int times)
    {
        publisher.on_look = [&, times] {
            if (publisher.looks == times) stop.stop();
        };
        relay().run();
    }
};

using ids = std::vector<std::int64_t>;

}  // namespace skald::test
