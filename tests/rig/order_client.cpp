#include "rig/order_client.hpp"

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace skald::rig {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr auto http_timeout = 10s;
constexpr milliseconds ask_again_for = 120s;
constexpr milliseconds first_pause = 20ms;
constexpr milliseconds longest_pause = 1s;
constexpr int look_up_tries = 5;

httplib::Result post(http_client& connection, planned_order const& order)
{
    nlohmann::ordered_json const body{
        {"customer", order.customer}, {"sku", order.sku}, {"quantity", order.quantity}, {"cents", order.cents}};
    return connection.Post("/orders", {{"Idempotency-Key", fmt::format("\"{}\"", order.key)}}, body.dump(),
                           "application/json");
}

/// Nothing if there was no response: refused, reset, timed out, or not HTTP. Then the outcome is unknown.
std::optional<httplib::Response> answer_of(httplib::Result const& result, order_record& record)
{
    if (result) return *result;
    record.last_refusal = httplib::to_string(result.error());
    return std::nullopt;
}

std::string excerpt(std::string const& body)
{
    return body.size() <= 120 ? body : body.substr(0, 120) + "...";
}

std::string text_at(nlohmann::json const& object, char const* name)
{
    if (!object.is_object()) return {};
    auto const found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

}  // namespace

order_client::order_client(std::uint16_t port, std::uint64_t seed, load_counters& counters, std::stop_token const& stop)
    : first_{port, http_timeout}, second_{port, http_timeout}, random_{seed}, counters_{counters}, stop_{stop}
{}

void order_client::place(planned_order const& order, order_record& record)
{
    repeat_until_final(first_, order, record, std::nullopt);
}

void order_client::place_twice_at_once(planned_order const& order, order_record& record)
{
    counters_.sent_twice++;
    auto other = std::async(std::launch::async, [&] { return post(second_, order); });
    auto answer_to_one = answer_of(post(first_, order), record);
    auto answer_to_two = answer_of(other.get(), record);
    repeat_until_final(first_, order, record, std::move(answer_to_one));
    repeat_until_final(second_, order, record, std::move(answer_to_two));
}

void order_client::place_again(planned_order const& order, order_record& record)
{
    counters_.sent_twice++;
    repeat_until_final(second_, order, record, std::nullopt);
}

void order_client::look_up(planned_order const& order, order_record& record)
{
    if (!record.accepted) return;
    std::optional<httplib::Response> response;
    for (int tries = 0; tries < look_up_tries && (!response || response->status >= 500); ++tries) {
        if (tries > 0 && !pause(longest_pause)) return;
        response = answer_of(first_.Get(record.location), record);
    }
    if (!response) return note_wrong(record, fmt::format("GET {}: {}", record.location, record.last_refusal));
    auto const body = nlohmann::json::parse(response->body, nullptr, false);
    record.told = text_at(body, "status");
    if (response->status != 200 || text_at(body, "key") != order.key || record.told.empty())
        note_wrong(record, fmt::format("GET {}: {} {}", record.location, response->status, excerpt(response->body)));
}

/// Continues from a response that has already come, or sends the request; then repeats it until the response is final.
void order_client::repeat_until_final(http_client& connection, planned_order const& order, order_record& record,
                                      std::optional<httplib::Response> response)
{
    auto const until = std::chrono::steady_clock::now() + ask_again_for;
    // A request that was sent when the order had already been accepted must be answered as a replay.
    bool known_before = !response && record.accepted;
    for (auto wait = first_pause;; wait = std::min(wait * 2, longest_pause)) {
        if (!response) response = answer_of(post(connection, order), record);
        if (response && judge(*response, order, record, known_before)) return;
        if (!response) counters_.asked_again++;
        if (!pause(wait) || std::chrono::steady_clock::now() >= until) return;
        response.reset();
        known_before = record.accepted;
    }
}

/// Whether the response is final.
bool order_client::judge(httplib::Response const& response, planned_order const& order, order_record& record,
                         bool known_before)
{
    if (response.status == 202) {
        judge_accepted(response, order, record, known_before);
        return true;
    }
    record.last_refusal = fmt::format("{} {}", response.status, excerpt(response.body));
    if (response.status == 409) {
        if (!response.has_header("Retry-After")) note_wrong(record, "409 without Retry-After");
        counters_.answered_in_flight++;
        return false;
    }
    if (response.status >= 500) {
        counters_.asked_again++;
        return false;
    }
    note_wrong(record, fmt::format("unexpected answer {}", record.last_refusal));
    return true;
}

void order_client::judge_accepted(httplib::Response const& response, planned_order const& order, order_record& record,
                                  bool known_before)
{
    bool const replayed = response.get_header_value("Idempotency-Replayed") == "true";
    auto const location = response.get_header_value("Location");
    if (!replayed && known_before) note_wrong(record, "a repeated request was not answered as a replay");
    if (!replayed && ++record.fresh_answers > 1) note_wrong(record, "two answers both claim to be the first");
    ++record.answers;
    if (record.accepted) {
        if (response.body != record.body || location != record.location)
            note_wrong(record, fmt::format("the replayed answer differs: '{}'", excerpt(response.body)));
        return;
    }
    auto const body = nlohmann::json::parse(response.body, nullptr, false);
    record.accepted = true;
    record.order_id = text_at(body, "order_id");
    record.saga = text_at(body, "saga");
    record.location = location;
    record.body = response.body;
    counters_.accepted++;
    if (record.order_id.empty() || record.saga.empty())
        note_wrong(record, fmt::format("the body lacks order_id or saga: '{}'", excerpt(response.body)));
    if (location != "/sagas/" + order.key) note_wrong(record, fmt::format("unexpected Location '{}'", location));
}

void order_client::note_wrong(order_record& record, std::string what)
{
    counters_.wrong_answers++;
    if (record.wrong.empty()) record.wrong = std::move(what);
}

/// Half of `about` to all of it, so that clients who were turned away together do not come back together. False if the
/// demonstration is to stop.
bool order_client::pause(milliseconds about)
{
    std::mutex alone;
    std::unique_lock lock{alone};
    milliseconds const length{pick(random_, about.count() / 2, about.count())};
    std::condition_variable_any{}.wait_for(lock, stop_, length, [] { return false; });
    return !stop_.stop_requested();
}

}  // namespace skald::rig
