#include "inbox/inbox_publisher.hpp"

#include "core/failpoint.hpp"
#include "core/foreign_message.hpp"
#include "core/text.hpp"
#include "transports/message_limits.hpp"

#include <pqxx/except>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace skald::inbox {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

// Of one transaction in a peer's database: the other services' relays wait for none of its locks, but its answer is
// what this relay waits for.
constexpr std::size_t part_rows_max = 250;
constexpr std::size_t part_bytes_max = 4 * 1024 * 1024;

// `payments` of `payments` and of `payments.on.payment-created`; `payments.created` is a key like any other.
std::string_view service_of(std::string_view destination)
{
    return destination.substr(0, destination.find(".on."));
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
    for (; rows < std::min(messages.size(), part_rows_max); ++rows) {
        bytes += messages[rows]->message.body.size();
        if (rows > 0 && bytes > part_bytes_max) break;
    }
    return rows;
}

}  // namespace

bool inbox_publisher::available()
{
    bool any = false;
    for (auto const& [service, to] : peers_) to->begin_to_connect();
    for (auto const& [service, to] : peers_) any = to->available() || to->is_another() || any;
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

// By the service that each names; under the empty name those for whoever is bound. Their order stays, and what can go
// nowhere has its answer already.
std::map<std::string_view, inbox_publisher::group> inbox_publisher::sorted(std::span<ports::outgoing const> messages)
{
    std::map<std::string_view, group> by_service;
    for (auto const& one : messages) {
        auto const exchange = core::find_header(one.message.headers, core::header::exchange).value_or("");
        auto const service = service_of(one.message.destination);
        if (auto why = why_refused(one.message); !why.empty())
            answer(one, {ports::publish_status::refused, std::move(why)});
        else if (!exchange.empty())
            answer(one, {ports::publish_status::barred,
                         "without a broker there is no exchange `" + std::string{exchange} + "`"});
        else by_service[peers_.contains(service) ? service : std::string_view{}].push_back(&one);
    }
    return by_service;
}

void inbox_publisher::send(std::span<ports::outgoing const> messages, milliseconds deadline)
{
    auto const until = clock::now() + deadline;
    for (auto const& [service, all] : sorted(messages)) {
        if (service.empty()) send_to_all(all, until);
        else send_to(service, all, until);
    }
}

void inbox_publisher::send_to(std::string_view service, group const& messages, clock::time_point until)
{
    auto outcomes = deliver(service, messages, until);
    for (std::size_t i = 0; i < messages.size(); ++i) answer(*messages[i], std::move(outcomes[i]));
}

// To every database, for those who are bound there. It has arrived where nobody is left who may be: one that can't be
// asked may. Then all get it again with each try, which the guard absorbs: it is tried as seldom as what is barred.
void inbox_publisher::send_to_all(group const& messages, clock::time_point until)
{
    using enum ports::publish_status;
    auto const is_answer = [](outcome const& one) { return one.status == returned || one.status == confirmed; };
    std::vector<outcome> all(messages.size(), {returned, {}});
    std::vector<bool> has_answer(messages.size());
    std::set<peer const*> asked;
    for (auto const& [service, to] : peers_) {
        if (!asked.insert(to.get()).second) continue;
        auto now = deliver(service, messages, until);
        for (std::size_t i = 0; i < messages.size(); ++i) {
            if (is_answer(now[i])) has_answer[i] = true;
            if (now[i].status != returned && is_answer(all[i])) all[i] = std::move(now[i]);
        }
    }
    for (std::size_t i = 0; i < messages.size(); ++i) {
        if (all[i].status == nacked && has_answer[i]) all[i].status = barred;
        if (all[i].status == returned)
            all[i].reason = "no inbox is known for `" + messages[i]->message.destination +
                            "`: SKALD_PEERS_FILE has no `" + std::string{service_of(messages[i]->message.destination)} +
                            "`, and nobody is bound to it";
        answer(*messages[i], std::move(all[i]));
    }
}

std::vector<inbox_publisher::outcome> inbox_publisher::deliver(std::string_view service, group const& messages,
                                                               clock::time_point until)
{
    auto& to = *peers_.find(service)->second;
    std::vector<outcome> all;
    std::span<ports::outgoing const* const> rest{messages};
    while (!rest.empty()) {
        auto const left = std::chrono::ceil<milliseconds>(until - clock::now());
        bool const is_there = to.available();
        if (!is_there || left <= 0ms) {
            all.resize(messages.size(), is_there ? outcome{ports::publish_status::unresolved, "no time was left for it"}
                                                 : put_off(service, to));
            break;
        }
        auto const part = rest.first(part_size(rest));
        std::ranges::move(deliver_part(to, service, part, left), std::back_inserter(all));
        rest = rest.subspan(part.size());
    }
    return all;
}

// Not sent. While another peer can be reached the rows are put off one by one, and nothing else waits for this one. So
// are those of one that somebody has to put right: `skald doctor` finds the reason beside them.
inbox_publisher::outcome inbox_publisher::put_off(std::string_view service, peer const& to) const
{
    bool const is_put_off = to.is_another() || last_error().empty();
    return {is_put_off ? ports::publish_status::nacked : ports::publish_status::unresolved,
            std::string{service} + ": " + to.last_error()};
}

std::vector<inbox_publisher::outcome> inbox_publisher::deliver_part(peer& to, std::string_view service,
                                                                    std::span<ports::outgoing const* const> part,
                                                                    milliseconds deadline) const
{
    auto const each = [&](ports::publish_status status, std::string const& why) {
        return std::vector<outcome>(part.size(), {status, std::string{service} + ": " + why});
    };
    try {
        std::vector<core::message const*> messages;
        for (auto const* const one : part) messages.push_back(&one->message);
        SKALD_FAILPOINT("relay.sending");
        auto const missing = to.deliver(messages, deadline);
        SKALD_FAILPOINT("relay.sent");
        std::vector<outcome> made;
        for (auto const* const one : part) {
            auto const& destination = one->message.destination;
            if (!missing.contains(destination)) made.push_back({ports::publish_status::confirmed, {}});
            else
                made.push_back({ports::publish_status::returned, "the database of " + std::string{service} +
                                                                     " has no inbox for `" + destination +
                                                                     "`: nothing consumes it"});
        }
        return made;
    }
    catch (pqxx::broken_connection const& lost) {
        return each(ports::publish_status::unresolved, lost.what());
    }
    catch (pqxx::insufficient_privilege const& error) {
        return each(ports::publish_status::nacked, lacking_right(error));
    }
    catch (pqxx::failure const& error) {
        return each(ports::publish_status::nacked, core::in_one_line(error.what()));
    }
}

void inbox_publisher::answer(ports::outgoing const& one, outcome what)
{
    receipts_.push_back({one.row, what.status, std::move(what.reason)});
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
