#include "runtime/large_bodies.hpp"

#include "core/envelope.hpp"
#include "core/foreign_message.hpp"

#include <algorithm>
#include <utility>

namespace skald::runtime {
namespace {

// What a row of the outbox holds itself: the constraint payload_is_at_most_1_mib.
constexpr std::size_t outbox_bytes_max = 1024 * 1024;

class keeper
{
public:
    keeper(ports::changes& changes, body_rules const& rules) : bodies_{changes.bodies}, rules_{rules} {}

    core::body_reference keep(std::string&& body, std::string_view of)
    {
        if (body.size() > rules_.most)
            throw ports::fault{ports::fault_kind::broken,
                               "the body of " + std::string{of} + " has " + std::to_string(body.size()) +
                                   " bytes: at most " + std::to_string(rules_.most) + " may be sent (SKALD_BODY_MAX)"};
        auto made = core::reference_to(body, rules_.store);
        add({made, std::move(body)});
        return made;
    }

    void keep_of(core::message& m) { core::refer(m, keep(std::move(m.body), m.type)); }

    // What came as a reference and goes on as one.
    void hold(core::message const& m)
    {
        if (!core::is_kept_elsewhere(m)) return;
        if (auto const there = core::reference_in(m)) add({*there});
    }

private:
    // Once, with its bytes if any of those that refer to it have them.
    void add(ports::kept_body&& one)
    {
        auto const same =
            std::ranges::find(bodies_, one.what.fingerprint, [](auto const& other) { return other.what.fingerprint; });
        if (same == bodies_.end()) bodies_.push_back(std::move(one));
        else if (!same->bytes) same->bytes = std::move(one.bytes);
    }

    std::vector<ports::kept_body>& bodies_;
    body_rules const& rules_;
};

/// Who reads a message: this service; another one of Skald's; or anybody, who may know nothing of references.
enum class reader { ours, service, anybody };

reader reader_of(core::message const& m, body_rules const& rules)
{
    if (!core::handler_of(m.destination, rules.service).empty()) return reader::ours;
    if (!core::find_header(m.headers, core::header::itinerary)) return reader::anybody;
    return m.destination == rules.service ? reader::ours : reader::service;
}

[[noreturn]] void refuse(std::string const& what, std::size_t size, std::string const& to)
{
    throw ports::fault{ports::fault_kind::broken,
                       what + " has " + std::to_string(size) + " bytes: more than " + std::to_string(outbox_bytes_max) +
                           " go to " + to +
                           " only by a store that both read: set SKALD_BODY_STORE in both, see "
                           "docs/bodies.md"};
}

// Not Skald's own reports: they are read by SQL, and are small. What anybody may read stays in its message for as long
// as a row of the outbox can hold it.
bool is_to_be_kept(core::message const& m, body_rules const& rules)
{
    auto const size = m.body.size();
    if (size <= rules.inline_max || m.type.starts_with("skald.")) return false;
    auto const who = reader_of(m, rules);
    if (who == reader::ours) return true;
    if (who == reader::service && rules.is_shared) return true;
    if (size <= outbox_bytes_max) return false;
    if (!rules.is_shared) refuse("the data for " + m.type, size, m.destination);
    return true;
}

// A handler's message that came from outside, and is too large for the row that would send it again. What is malformed
// may be shortened: only its sender can repeat it.
bool is_to_be_kept(ports::parked_delivery const& p)
{
    return !p.handler.empty() && p.reason != "malformed" && p.message.body.size() > outbox_bytes_max;
}

}  // namespace

void keep_large_bodies(ports::changes& changes, body_rules const& rules)
{
    keeper to{changes, rules};
    for (auto& one : changes.messages) {
        if (is_to_be_kept(one.message, rules)) to.keep_of(one.message);
        else to.hold(one.message);
    }
    // As it came, so that it can be exported with its body, and replayed to whom references mean nothing.
    for (auto& one : changes.parked) {
        if (is_to_be_kept(one)) to.keep_of(one.message);
        else to.hold(one.message);
    }
    // Sent again as it was sent, so by the same rule.
    for (auto& one : changes.replies) {
        if (one.body.size() <= outbox_bytes_max) continue;
        if (!rules.is_shared) refuse("the reply of " + one.handler, one.body.size(), "whoever asked");
        one.kept = to.keep(std::move(one.body), "the reply of " + one.handler);
        one.body.clear();
    }
    for (auto& one : changes.sagas) {
        if (one.data.size() <= rules.inline_max) continue;
        one.kept = to.keep(std::move(one.data), "the saga");
        one.data = core::stand_in_for(*one.kept);
    }
    if (auto& response = changes.response; response && response->body.size() > rules.inline_max) {
        response->kept = to.keep(std::move(response->body), "the response");
        response->body.clear();
    }
    // In one order, so that two transactions that keep the same ones do not wait for each other in a circle.
    std::ranges::sort(changes.bodies, {}, [](auto const& one) { return one.what.fingerprint; });
}

}  // namespace skald::runtime
