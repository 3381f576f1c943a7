#include "inbox/inbox_publisher.hpp"

#include "core/failpoint.hpp"
#include "core/foreign_message.hpp"
#include "core/text.hpp"
#include "transports/message_limits.hpp"

#include <pqxx/except>

#include <algorithm>
#include <array>
#include <utility>

namespace skald::inbox {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

// Of one transaction in a peer's database: the other services' relays wait for none of its locks, but its answer is
// what this relay waits for.
constexpr std::size_t rows_max = 250;
constexpr std::size_t bytes_max = 4 * 1024 * 1024;

// `payments` of `payments` and of `payments.on.payment-created`.
std::string_view service_of(std::string_view destination)
{
    return destination.substr(0, destination.find('.'));
}

// What a column of text can't hold, and a wire of bytes can.
std::string why_no_text(core::message const& m)
{
    for (auto const& [field, value] : {std::pair{"destination", &m.destination}, std::pair{"id", &m.id},
                                       std::pair{"type", &m.type}, std::pair{"content type", &m.content_type}})
        if (!core::is_storable_text(*value)) return "its " + std::string{field} + " is no UTF-8, or has a zero byte";
    return {};
}

std::string why_refused(core::message const& m)
{
    auto why = transports::why_never_sent(m);
    return why.empty() ? why_no_text(m) : why;
}

std::size_t part_size(std::span<ports::outgoing const* const> messages)
{
    std::size_t bytes = 0, rows = 0;
    for (; rows < std::min(messages.size(), rows_max); ++rows) {
        bytes += messages[rows]->message.body.size();
        if (rows > 0 && bytes > bytes_max) break;
    }
    return rows;
}

}  // namespace

bool inbox_publisher::available()
{
    bool any = false;
    for (auto const& [service, to] : peers_) any = to->available() || any;
    return any;
}

std::string inbox_publisher::last_error() const
{
    std::string all;
    for (auto const& [service, to] : peers_) {
        if (to->is_connected()) return {};
        all += (all.empty() ? "" : "; ") + service + ": " + to->last_error();
    }
    return all;
}

// Messages to peers keep their order; what can go nowhere has its answer already.
std::map<std::string_view, inbox_publisher::group> inbox_publisher::sorted(std::span<ports::outgoing const> messages)
{
    std::map<std::string_view, group> by_service;
    for (auto const& one : messages) {
        std::array const alone{&one};
        auto const to_exchange = core::find_header(one.message.headers, core::header::exchange);
        auto const service = service_of(one.message.destination);
        if (auto const why = why_refused(one.message); !why.empty()) answer(alone, ports::publish_status::refused, why);
        else if (to_exchange && !to_exchange->empty())
            answer(alone, ports::publish_status::returned,
                   "without a broker there is no exchange `" + std::string{*to_exchange} + "`");
        else if (!peers_.contains(service))
            answer(alone, ports::publish_status::returned,
                   "no inbox is known for `" + one.message.destination + "`: SKALD_PEERS_FILE has no `" +
                       std::string{service} + "`");
        else by_service[service].push_back(&one);
    }
    return by_service;
}

void inbox_publisher::send(std::span<ports::outgoing const> messages, milliseconds deadline)
{
    auto const until = clock::now() + deadline;
    for (auto const& [service, all] : sorted(messages)) send_to(service, all, until);
}

void inbox_publisher::send_to(std::string_view service, std::span<ports::outgoing const* const> messages,
                              clock::time_point until)
{
    auto& to = *peers_.find(service)->second;
    while (!messages.empty()) {
        auto const left = std::chrono::ceil<milliseconds>(until - clock::now());
        if (!to.available()) return answer(messages, put_off(), std::string{service} + ": " + to.last_error());
        if (left <= 0ms)
            return answer(messages, ports::publish_status::unresolved, "there was no time left to send it");
        auto const part = messages.first(part_size(messages));
        send_part(to, service, part, left);
        messages = messages.subspan(part.size());
    }
}

// Not sent. While another peer can be reached the rows are put off one by one, and nothing else waits for this one.
ports::publish_status inbox_publisher::put_off() const
{
    return last_error().empty() ? ports::publish_status::nacked : ports::publish_status::unresolved;
}

void inbox_publisher::send_part(peer& to, std::string_view service, std::span<ports::outgoing const* const> part,
                                milliseconds deadline)
try {
    std::vector<core::message const*> messages;
    for (auto const* const one : part) messages.push_back(&one->message);
    SKALD_FAILPOINT("relay.sending");
    auto const missing = to.deliver(messages, deadline);
    SKALD_FAILPOINT("relay.sent");
    for (auto const* const one : part) {
        std::array const alone{one};
        if (!missing.contains(one->message.destination)) answer(alone, ports::publish_status::confirmed, {});
        else
            answer(alone, ports::publish_status::returned,
                   "the database of " + std::string{service} + " has no inbox for `" + one->message.destination +
                       "`: nothing has ever consumed it");
    }
}
catch (pqxx::broken_connection const& lost) {
    answer(part, ports::publish_status::unresolved, std::string{service} + ": " + lost.what());
}
catch (pqxx::failure const& error) {
    answer(part, ports::publish_status::nacked, std::string{service} + ": " + error.what());
}

void inbox_publisher::answer(std::span<ports::outgoing const* const> messages, ports::publish_status status,
                             std::string const& reason)
{
    for (auto const* const one : messages) receipts_.push_back({one->row, status, reason});
}

std::vector<ports::receipt> inbox_publisher::collect(milliseconds wait)
{
    std::unique_lock lock{mutex_};
    if (receipts_.empty())
        interrupted_.wait_for(lock, std::min<milliseconds>(wait, 1s), [this] { return is_interrupted_; });
    is_interrupted_ = false;
    return std::exchange(receipts_, {});
}

void inbox_publisher::interrupt() noexcept
{
    std::lock_guard const lock{mutex_};
    is_interrupted_ = true;
    interrupted_.notify_one();
}

}  // namespace skald::inbox
